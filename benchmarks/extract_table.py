"""What `bench_extract.py` measured, as RESULTS.md shows it."""

from __future__ import annotations

from typing import Any

import told

CONTEXT, STRIDE = 1024, 512
"""Of LongPPL's short context, in tokens."""

Figures = dict[str, Any]

HEADS = {
    "full": ("model", "bare, s", "ours, s", "ratio (goal ≤ 1.05)"),
    "longppl": ("model", "procedure, s", "ours, s", "ratio (goal ≤ 0.7 / 0.55)",
                "largest difference, nats"),
    "harness": ("model", "harness, s", "ours, s", "ratio (goal ≤ 1.0)"),
    "retrieval": ("tokens", "k = 1, s", "k = 4, s", "k = 16, s", "k = 16 / k = 1 (goal ≤ 1.35)"),
    "memory": ("model", "tokens", "full logits, MB", "ours, MB", "ratio (goal ≤ 0.2)", "ours, s"),
    "bytes": ("condition", "rows", "bytes per row (goal ≤ 10)"),
}  # fmt: skip


def tell(found: Figures) -> None:
    """Write the tables of the measured parts anew in RESULTS.md."""
    told.tell(told.RESULTS, "extract.json", machine_block(found))
    for part in found["parts"]:
        told.tell(told.RESULTS, f"extract.json {part}", block(found, part))


def machine_block(found: Figures) -> str:
    """The machine, and the load before the parts."""
    machine = found["machine"]
    loads = [part["load_before"] for part in found["parts"].values()]
    line = (
        f"{machine['cores']} cores ({machine['processor']}), torch {machine['torch']}, "
        f"transformers {machine['transformers']}, lm_eval {machine['lm_eval']}; load before a part "
        f"at most {max(loads):.1f}."
    )
    return told.block("extract.json", [line])


def block(found: Figures, part: str) -> str:
    """The table of a part between its marks."""
    return told.block(f"extract.json {part}", table(found, part))


def table(found: Figures, part: str) -> list[str]:
    """The table of a part."""
    head = HEADS[part]
    lines = [list(head), ["---"] * len(head), *map(CELLS[part], found["parts"][part]["rows"])]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _beside(other: str) -> Any:
    def cells(row: Figures) -> list[str]:
        times = (f"{row[other]:.2f}", f"{row['ours']:.2f}")
        return [row["model"], *times, f"**{row['ours'] / row[other]:.2f}**"]

    return cells


def _longppl(row: Figures) -> list[str]:
    return [*_beside("procedure")(row), f"{row['nats']:.1e}"]


def _retrieval(row: Figures) -> list[str]:
    times = (f"{row[excerpts]:.1f}" for excerpts in ("1", "4", "16"))
    return [f"{row['tokens']:,}", *times, f"**{row['16'] / row['1']:.2f}**"]


def _memory(row: Figures) -> list[str]:
    sizes = (f"{row[name] / 1e6:,.0f}" for name in ("plain_bytes", "ours_bytes"))
    ratio = row["ours_bytes"] / row["plain_bytes"]
    return [row["model"], f"{row['tokens']:,}", *sizes, f"**{ratio:.2f}**", f"{row['ours']:.1f}"]


def _bytes(row: Figures) -> list[str]:
    return [row["condition"], f"{row['rows']:,}", f"**{row['bytes'] / row['rows']:.2f}**"]


CELLS = {
    "full": _beside("bare"), "longppl": _longppl, "harness": _beside("harness"),
    "retrieval": _retrieval, "memory": _memory, "bytes": _bytes,
}  # fmt: skip
