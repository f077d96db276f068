"""The tables of what `bench_gpu.py` measured, and the hours of the problem no4k on one H100.

    python benchmarks/gpu_results.py        # seconds, no GPU; rewrites the section of RESULTS.md

Hours: every model reads 50 documents of 32,768 tokens, the most that the problem allows, with all
probes. Its FLOPs are those of `tokenmart extract --dry-run`. Of the peak it reaches what was
measured in the shapes of Qwen2.5 0.5B and 7B, all probes, 32,768 tokens; between the two, the
share rises with the logarithm of the weights of the layers; beyond, it is the nearer one's. What
passes while the GPU waits (files, loading, checks) is not in these hours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from marked_tables import RESULTS, ROOT, marked, replace_marked, table

sys.path[:0] = [str(ROOT)]

from extract.planning.cost import ModelSize, estimate, linear_parameters, work_of  # noqa: E402
from warehouse.paths import find_workspace  # noqa: E402
from warehouse.problem.spec import load_problem  # noqa: E402

BLOCK = "benchmarks/bench_gpu.json"
OWN_LAYERS = "benchmarks/bench_gpu_own_layers.json"
CORRECTNESS = ("benchmarks/bench_gpu_families.json", "benchmarks/bench_gpu_correctness.json")
HOURS = "hours of no4k"
DOCUMENTS, TOKENS = 50, 32_768
GIB = 2**30
Row = dict[str, Any]

PLAIN, CHANGED = "plain", "plain, part of the context changed"


def committed(path: str) -> dict[str, Any]:
    """The record of a run."""
    return dict(json.loads((ROOT / path).read_text("utf-8")))


def section(record: dict[str, Any], block: str = BLOCK) -> str:
    """Machine and tables of one run, with the markers of RESULTS.md."""
    versions = record["versions"]
    rows = record["rows"]
    lines = [
        f"{record['device']}, {record['date']}; torch {versions['torch']}, transformers "
        f"{versions['transformers']}, {record['dtype']}; one product of matrices ran at "
        f"{record['matmul_tflops']:.0f} TFLOP/s (data sheet {record['peak_tflops'] or 0:.0f}). "
        f"Results that were wrong: {len(record['wrong'])}. Left out because the time was limited: "
        f"{'; '.join(record['skipped']) or 'nothing'}.",
    ]
    if compared := correctness(rows):
        columns = {
            "model": "{model}",
            "tokens:": "{tokens:,}",
            "probe": "{probe}",
            "ours, float32:": "{float32:.1e}",
            "ours, half precision:": "{half:.1e}",
            "plain, half precision:": "{plain:.1e}",
            "plain, other tokens in the context:": "{changed:.1e}",
        }
        title = "Mean difference from the plain float32 forward, in nats:"
        lines += ["", title, "", *table(columns, compared)]
    if measured := timed(rows):
        columns = {
            "model": "{model}",
            "tokens:": "{tokens:,}",
            "what": "{what}",
            "s:": "{seconds:.3f}",
            "tokens/s:": "{speed}",
            "of peak:": "{share}",
            "× ours:": "{times}",
            "GiB planned:": "{planned}",
            "GiB measured:": "{measured}",
        }
        lines += ["", *table(columns, map(cells, measured))]
    apart = [row for row in rows if row["part"] in ("memory", "extraction", "divergence")]
    lines += ["", *map(sentence, apart)] if apart else []
    return marked(block, lines)


def layers_section(record: dict[str, Any]) -> str:
    """Seconds with the model's own layers and PyTorch's head, and with fused ones."""
    fused = {key(row): row["seconds"] for row in timed(committed(BLOCK)["rows"])}
    rows = [
        {
            **row,
            "model": name(row),
            "fused": fused[key(row)],
            "times": row["seconds"] / fused[key(row)],
        }
        for row in timed(record["rows"])
    ]
    columns = {
        "model": "{model}",
        "tokens:": "{tokens:,}",
        "what": "{what}",
        "own layers, s:": "{seconds:.3f}",
        "fused, s:": "{fused:.3f}",
        "own / fused:": "{times:.2f}",
    }
    return marked(OWN_LAYERS, table(columns, rows))


def key(row: Row) -> tuple[str, int, str]:
    """What a row of speed is about."""
    return row["model"], row["tokens"], row["what"]


def name(row: Row) -> str:
    """The model without the word that says that its weights are random."""
    return str(row["model"]).removeprefix("random/")


def timed(rows: list[Row]) -> list[Row]:
    """The rows of speed that have a time."""
    return [row for row in rows if row["part"] == "speed" and row["seconds"] is not None]


def correctness(rows: list[Row]) -> list[Row]:
    """One row per model, probe and kind of layers, with the mean differences side by side."""
    lines: dict[tuple[str, str, str], Row] = {}
    plain: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if row["part"] not in ("correctness", "families") or row["mean_nats"] is None:
            continue
        probe, _, who = row["what"].partition(", ")
        if who in (PLAIN, CHANGED):
            plain[row["model"], probe, who] = row["mean_nats"]
            continue
        layers = who.removeprefix("ours")
        line = lines.setdefault(
            (row["model"], probe, layers),
            {"model": name(row) + layers, "tokens": row["tokens"], "probe": probe},
        )
        line["float32" if row["dtype"] == "float32" else "half"] = row["mean_nats"]
    for (model, probe, _), line in lines.items():
        line["plain"], line["changed"] = plain[model, probe, PLAIN], plain[model, probe, CHANGED]
    return list(lines.values())


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
    seconds = "" if row["seconds"] is None else f", {row['seconds']:.3g} s"
    times = f" ({row['times_ours']:.2f} × the line above)" if row["times_ours"] else ""
    note = f" {row['note']}." if row["note"] else ""
    return f"- {name(row)}, {row['tokens']:,} tokens: {row['what']}{seconds}{times}.{note}"


def share_of_peak(record: dict[str, Any]) -> Callable[[Any], float]:
    """A function that gives the share of the peak, with all probes, for a model's shape."""
    problem: Any = load_problem("no4k", find_workspace(ROOT))
    measured = sorted(
        (
            np.log(linear_parameters(problem.model(f"Qwen/{name(row)}-Instruct").shape)),
            row["share_of_peak"],
        )
        for row in record["rows"]
        if (row["what"], row["tokens"]) == ("ours: all probes", TOKENS)
    )
    weights, shares = zip(*measured, strict=True)
    return lambda shape: float(np.interp(np.log(linear_parameters(shape)), weights, shares))


def hours(record: dict[str, Any]) -> list[Row]:
    """One row per model of no4k: its FLOPs, the share of the peak, hours."""
    problem: Any = load_problem("no4k", find_workspace(ROOT))
    share = share_of_peak(record)
    work = work_of([TOKENS] * DOCUMENTS, [c for p in problem.probes for c in p.conditions()])
    rows = []
    for model in problem.ranked_models:
        size = ModelSize(model.parameters, model.shape)
        flops = estimate(work, size, dtype="bfloat16", device="cuda").flops
        seconds = flops / (share(model.shape) * record["peak_tflops"] * 1e12)
        rows.append(
            {
                "model": model.full_id,
                "pflops": flops / 1e15,
                "share": share(model.shape),
                "hours": seconds / 3600,
            }
        )
    return rows


def hours_section(record: dict[str, Any]) -> str:
    """The table of hours and their sum."""
    rows = hours(record)
    columns = {
        "model": "{model}",
        "PFLOP:": "{pflops:,.0f}",
        "of peak:": "{share:.0%}",
        "hours:": "{hours:.3f}",
    }
    total = (
        f"{len(rows)} models × {DOCUMENTS} documents × {TOKENS:,} tokens, all probes: "
        f"{sum(row['hours'] for row in rows):.2f} hours of computing on the {record['device']}."
    )
    return marked(HOURS, [*table(columns, rows), "", total])


if __name__ == "__main__":
    replace_marked(RESULTS, BLOCK, section(committed(BLOCK)))
    replace_marked(RESULTS, HOURS, hours_section(committed(BLOCK)))
    replace_marked(RESULTS, OWN_LAYERS, layers_section(committed(OWN_LAYERS)))
    for path in CORRECTNESS:
        replace_marked(RESULTS, path, section(committed(path), path))
