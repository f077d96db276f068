"""Hours of the problem no4k on one H100, computed from the committed speeds of `bench_gpu.json`.

    python benchmarks/gpu_hours.py        # seconds, no GPU; rewrites the table in RESULTS.md

Every model reads 50 documents of 32,768 tokens, the most that the problem allows, with all probes.
Its FLOPs are those of `tokenmart extract --dry-run`. Of the peak it reaches what was measured
in the shapes of Qwen2.5 0.5B and 7B, all probes, 32,768 tokens; between the two, the share rises
with the logarithm of the weights of the layers; beyond, it is the nearer one's. What passes while
the GPU waits (files, loading, checks) is not in these hours.
"""

from __future__ import annotations

import json
import math
import sys
from itertools import pairwise
from typing import Any

from marked_tables import RESULTS, ROOT, marked, replace_marked, table

sys.path[:0] = [str(ROOT)]

BLOCK = "benchmarks/gpu_hours.py"
DOCUMENTS, TOKENS = 50, 32_768
Row = dict[str, Any]


def measured_shares(record: Row) -> list[tuple[float, float]]:
    """Weights of the layers, and the share of the peak with all probes, of each measured shape."""
    shapes = {model.full_id: model.shape for model in _models()}
    found = []
    for row in record["rows"]:
        if row["what"] == "ours: all probes" and row["tokens"] == TOKENS:
            name = row["model"].replace("random/", "Qwen/") + "-Instruct"
            found.append((_weights(shapes[name]), row["share_of_peak"]))
    return sorted(found)


def share_at(weights: float, measured: list[tuple[float, float]]) -> float:
    """What a model with this many weights in its layers has of what was measured of two."""
    if weights <= measured[0][0]:
        return measured[0][1]
    for (low, share), (high, larger) in pairwise(measured):
        if weights < high:
            part = math.log(weights / low) / math.log(high / low)
            return share + part * (larger - share)
    return measured[-1][1]


def hours(record: Row) -> list[Row]:
    """One row per model of no4k: its FLOPs, the share of the peak, hours."""
    from extract.planning.cost import ModelSize, estimate, work_of
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    problem = load_problem("no4k", find_workspace(ROOT))
    work = work_of([TOKENS] * DOCUMENTS, [c for p in problem.probes for c in p.conditions()])
    measured = measured_shares(record)
    rows = []
    for model in _models():
        size = ModelSize(model.parameters, model.shape)
        flops = estimate(work, size, dtype="bfloat16", device="cuda").flops
        share = share_at(_weights(model.shape), measured)
        seconds = flops / (share * record["peak_tflops"] * 1e12)
        rows.append(
            {
                "model": model.full_id,
                "pflops": flops / 1e15,
                "share": share,
                "hours": seconds / 3600,
            }
        )
    return rows


def _models() -> Any:
    from warehouse.paths import find_workspace
    from warehouse.problem.spec import load_problem

    return load_problem("no4k", find_workspace(ROOT)).ranked_models


def _weights(shape: Any) -> float:
    from extract.planning.cost import linear_parameters

    return float(linear_parameters(shape))


def section(record: Row) -> str:
    """The table and its sum, with the markers of RESULTS.md."""
    rows = hours(record)
    total = sum(row["hours"] for row in rows)
    columns = {
        "model": "{model}",
        "PFLOP:": "{pflops:,.0f}",
        "of peak:": "{share:.0%}",
        "hours:": "{hours:.3f}",
    }
    lines = [
        *table(columns, rows),
        "",
        f"{len(rows)} models × {DOCUMENTS} documents × {TOKENS:,} tokens, all probes: "
        f"{total:.2f} hours of computing on the {record['device']}.",
    ]
    return marked(BLOCK, lines)


if __name__ == "__main__":
    record = json.loads((ROOT / "benchmarks" / "bench_gpu.json").read_text("utf-8"))
    text = section(record)
    print(text)
    replace_marked(RESULTS, BLOCK, text)
