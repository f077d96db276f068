"""The tables of what `bench_gpu.py` measured; run, it rewrites the section of RESULTS.md."""

from __future__ import annotations

import json
from typing import Any

from marked_tables import RESULTS, ROOT, marked, replace_marked, table

OUT = ROOT / "benchmarks" / "bench_gpu.json"
BLOCK = "benchmarks/bench_gpu.json"
GIB = 2**30
Row = dict[str, Any]

COMPARED = {"ours": "ours", "plain": "plain", "changed": "plain, part of the context changed"}


def section(record: dict[str, Any]) -> str:
    """Machine, correctness, memory and speed, with the markers of RESULTS.md."""
    versions = record["versions"]
    rows = record["rows"]
    lines = [
        f"{record['device']}, {record['date']}; torch {versions['torch']}, transformers "
        f"{versions['transformers']}, {record['dtype']}; one product of matrices ran at "
        f"{record['matmul_tflops']:.0f} TFLOP/s (data sheet {record['peak_tflops'] or 0:.0f}). "
        f"Results that were wrong: {len(record['wrong'])}. Left out because the time was limited: "
        f"{'; '.join(record['skipped']) or 'nothing'}.",
        "",
        "Mean difference from the plain float32 forward, in nats:",
        "",
        *table(
            {
                "model": "{model}",
                "tokens:": "{tokens:,}",
                "probe": "{probe}",
                "ours, float32:": "{float32:.1e}",
                "ours, half precision:": "{half:.1e}",
                "plain, half precision:": "{plain:.1e}",
                "plain, other tokens in the context:": "{changed:.1e}",
            },
            correctness(rows),
        ),
        "",
        *table(
            {
                "model": "{model}",
                "tokens:": "{tokens:,}",
                "what": "{what}",
                "s:": "{seconds:.3f}",
                "tokens/s:": "{speed}",
                "of peak:": "{share}",
                "× ours:": "{times}",
                "GiB planned:": "{planned}",
                "GiB measured:": "{measured}",
            },
            map(cells, timed(rows)),
        ),
        "",
        *(sentence(row) for row in rows if row["part"] in ("memory", "extraction")),
    ]
    return marked(BLOCK, lines)


def name(row: Row) -> str:
    """The model without the word that says that its weights are random."""
    return str(row["model"]).removeprefix("random/")


def timed(rows: list[Row]) -> list[Row]:
    """The rows of speed that have a time."""
    return [row for row in rows if row["part"] == "speed" and row["seconds"] is not None]


def correctness(rows: list[Row]) -> list[Row]:
    """One row per model and probe, with the mean differences side by side."""
    found: dict[tuple[str, int, str], Row] = {}
    for row in rows:
        if row["part"] == "correctness" and row["mean_nats"] is not None:
            probe, _, who = row["what"].partition(", ")
            key = name(row), row["tokens"], probe
            line = found.setdefault(key, dict(zip(("model", "tokens", "probe"), key, strict=True)))
            if who == COMPARED["changed"]:
                line["changed"] = row["mean_nats"]
            elif who == COMPARED["ours"] and row["dtype"] == "float32":
                line["float32"] = row["mean_nats"]
            else:
                line["half" if who == COMPARED["ours"] else "plain"] = row["mean_nats"]
    return list(found.values())


def cells(row: Row) -> Row:
    """A row of speed as text, empty where a figure does not apply."""

    def shown(key: str, form: str, divisor: float = 1.0) -> str:
        return "" if row[key] is None else form.format(row[key] / divisor)

    return {
        **row,
        "model": name(row),
        "speed": shown("tokens_per_second", "{:,.0f}"),
        "share": shown("share_of_peak", "{:.0%}"),
        "times": shown("times_ours", "{:.2f}"),
        "planned": shown("predicted_bytes", "{:.1f}", GIB),
        "measured": shown("peak_bytes", "{:.1f}", GIB),
    }


def sentence(row: Row) -> str:
    """A measurement that is compared with nothing, as an item of a list."""
    seconds = "" if row["seconds"] is None else f", {row['seconds']:.1f} s"
    return f"- {name(row)}, {row['tokens']:,} tokens: {row['what']}{seconds}. {row['note']}."


if __name__ == "__main__":
    replace_marked(RESULTS, BLOCK, section(json.loads(OUT.read_text("utf-8"))))
