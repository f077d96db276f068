"""What `growth.py` measured, as RESULTS.md and docs/explanation/cost.md show it.

A run is one output: pieces of one machine. Times of two runs are never compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from marked_tables import RESULTS, ROOT, marked, replace_marked

from extract.planning.cost import BYTES_PER_ROW, Work, assumed_speed, estimate
from extract.planning.memory import ModelSize
from warehouse.problem.models import ModelShape

BLOCK = "growth.json"
GIB = 2**30
Piece = dict[str, Any]
Run = dict[str, Any]

DOCUMENTS = 50
"""Of each model of the made-up stores."""

PRICES = {"GPU hour": 2.0, "core hour": 0.05, "TB and month": 23.0}
"""Dollars, assumed: about what clouds asked in 2026."""

LAB = {"models": 1_000, "documents": 10_000, "tokens": 131_072, "parameters": 7_000_000_000}
"""The case that docs/explanation/cost.md estimates: each document read whole, once."""


def committed_outputs() -> list[Path]:
    """The outputs that the tables are made of."""
    return sorted((ROOT / "benchmarks").glob("growth*.json"))


def committed_runs() -> list[Run]:
    """What they hold."""
    return [json.loads(path.read_text("utf-8")) for path in committed_outputs()]


def write_tables() -> None:
    """Rewrite the tables on their pages."""
    runs = committed_runs()
    replace_marked(RESULTS, BLOCK, results_block(runs))
    replace_marked(ROOT / "docs" / "explanation" / "cost.md", BLOCK, reckoning_block(runs))


def pieces(found: Run, kind: str) -> dict[str, Piece]:
    """The pieces of one kind by the rest of their names, smallest store first."""
    prefix = f"{kind} "
    chosen = {
        name.removeprefix(prefix): piece
        for name, piece in found["pieces"].items()
        if name.startswith(prefix)
    }
    return dict(sorted(chosen.items(), key=lambda item: item[1].get("rows", 0)))


def results_block(runs: Sequence[Run]) -> str:
    """Builds, runs with little new, pruning and small units."""
    parts = [part for run in runs for part in run_parts(run)]
    return marked(BLOCK, ["\n\n".join("\n".join(lines) for lines in parts)])


def run_parts(found: Run) -> Iterator[list[str]]:
    """The machine, and a table for each kind of piece that was measured on it."""
    machine = found["machine"]
    yield [
        f"{machine['cores']} cores ({machine['processor']}), DuckDB {machine['duckdb']}, Python "
        f"{machine['python']}."
    ]
    if pieces(found, "build"):
        yield from build_parts(found)
    if units := pieces(found, "units"):
        count = int(next(iter(units)).split()[0])
        lines = [f"| command on {count:,} units | s | peak memory, GiB |", "|---|---:|---:|"]
        for name, piece in units.items():
            lines.append(
                f"| {name.split()[1]} | {piece['seconds']:.1f} | {piece['peak_bytes'] / GIB:.2f} |"
            )
        yield lines


def build_parts(found: Run) -> Iterator[list[str]]:
    """Builds, how they grow, and runs with little new."""
    lines = [
        "| rows | models | bytes a row | DuckDB's limit, GiB | build, s | processor, s | "
        "peak memory, GiB | load before |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, build in pieces(found, "build").items():
        store = found["pieces"][f"write {name.split()[0]}"]
        lines.append(
            f"| {store['rows'] / 1e6:,.1f} M | {store['models']:,} | {store['bytes_a_row']:.1f} | "
            f"{build['limit_bytes'] / GIB:.0f} | {build['seconds']:,.1f} | "
            f"{build['cpu_seconds']:,.0f} | {build['peak_bytes'] / GIB:.2f} | "
            f"{build['load_before']:.1f} |"
        )
    yield lines
    yield slope_lines(found)
    lines = [
        "| rows | nothing new, s | one new model (rows), s | one condition of one model, s | "
        "all rows, s |",
        "|---:|---:|---:|---:|---:|",
    ]
    pruned = pieces(found, "pruned")
    for name, added in pieces(found, "added").items():
        lines.append(
            f"| {added['rows'] / 1e6:,.1f} M | {added['seconds_nothing_new']:.1f} | "
            f"{added['seconds_one_model']:.1f} ({added['new_rows'] / 1e6:.2f} M) | "
            f"{pruned[name]['seconds_one_condition']:.3f} | {pruned[name]['seconds_all']:.2f} |"
        )
    yield lines


def slope_lines(found: Run) -> list[str]:
    """How time grows with rows between neighbouring sizes at the same limit; 1 is linear."""
    of_limit: dict[float, list[Piece]] = {}
    for piece in pieces(found, "build").values():
        of_limit.setdefault(piece["limit_bytes"], []).append(piece)
    lines = []
    for limit, builds in sorted(of_limit.items()):
        for small, large in pairwise(builds):
            lines.append(
                f"- {small['rows'] / 1e6:,.1f} M to {large['rows'] / 1e6:,.1f} M rows at "
                f"{limit / GIB:.0f} GiB: rows × {large['rows'] / small['rows']:.1f}, time × "
                f"{large['seconds'] / small['seconds']:.1f} (slope "
                f"{slope(small, large, 'seconds'):.2f}), processor time × "
                f"{large['cpu_seconds'] / small['cpu_seconds']:.1f} (slope "
                f"{slope(small, large, 'cpu_seconds'):.2f})"
            )
    return lines


def slope(small: Piece, large: Piece, figure: str) -> float:
    """Of log time in log rows between two builds."""
    return math.log(large[figure] / small[figure]) / math.log(large["rows"] / small["rows"])


def reckoning(runs: Sequence[Run]) -> dict[str, float]:
    """The large case, in proportion to the largest store that was built; hours, bytes, dollars."""
    builds = [
        (name.split()[0], each, run) for run in runs for name, each in pieces(run, "build").items()
    ]
    largest = max(each["rows"] for _, each, _ in builds)
    build = max(
        (each for _, each, _ in builds if each["rows"] == largest),
        key=lambda each: each["cpu_seconds"],
    )
    # the same for every store; the first pieces that were measured lack it
    documents_built, values = next(
        (DOCUMENTS * run["pieces"][f"write {rows}"]["models"], each["document_values"])
        for rows, each, run in builds
        if "document_values" in each
    )
    of_units = next(found for run in runs if (found := pieces(run, "units")))
    units = {name.split()[1]: piece for name, piece in of_units.items()}
    unit_count = int(next(iter(of_units)).split()[0])
    documents = LAB["models"] * LAB["documents"]
    rows = documents * LAB["tokens"]
    pairs = documents * LAB["tokens"] ** 2 / 2
    work = Work(tokens=rows, rows=rows, pairs=pairs)
    cost = estimate(
        work,
        ModelSize(LAB["parameters"], ModelShape.assumed(LAB["parameters"])),
        dtype="bfloat16",
        device="cuda",
    )
    core_hours = rows * build["cpu_seconds"] / build["rows"] / 3600
    return {
        "rows": rows,
        "bytes": cost.disk_bytes,
        "storage_dollars": cost.disk_bytes / 1e12 * PRICES["TB and month"],
        "gpu_hours": cost.seconds / 3600,
        "gpu_dollars": cost.seconds / 3600 * PRICES["GPU hour"],
        "core_hours": core_hours,
        "core_dollars": core_hours * PRICES["core hour"],
        "values": documents * values / documents_built,
        "open_minutes": documents * units["sql"]["seconds"] / unit_count / 60,
        "status_minutes": documents * units["status"]["seconds"] / unit_count / 60,
    }


def reckoning_block(runs: Sequence[Run]) -> str:
    """The computation in a table."""
    case = reckoning(runs)
    lines = [
        f"| {LAB['models']:,} models of {LAB['parameters'] / 1e9:.0f}B × {LAB['documents']:,} "
        f"documents × {LAB['tokens'] // 1024}k tokens, probe `full` | | dollars |",
        "|---|---:|---:|",
        f"| token rows | {case['rows']:.2e} | |",
        f"| GPU hours at {assumed_speed('cuda', 'bfloat16')[1]} | {case['gpu_hours']:,.0f} | "
        f"{case['gpu_dollars']:,.0f} |",
        f"| Parquet at {BYTES_PER_ROW} bytes a row, TB | {case['bytes'] / 1e12:,.1f} | "
        f"{case['storage_dollars']:,.0f} a month |",
        f"| processor hours of a build from nothing | {case['core_hours']:,.0f} | "
        f"{case['core_dollars']:,.0f} |",
        f"| values per document, the input of the marts | {case['values']:.1e} | |",
        f"| minutes to open `tokenmart sql` | {case['open_minutes']:.0f} | |",
        f"| minutes of `tokenmart status` | {case['status_minutes']:.0f} | |",
    ]
    return marked(BLOCK, lines)
