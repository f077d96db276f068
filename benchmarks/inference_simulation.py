"""How often are the claims of `correlate`, `select` and `preregister` right? Simulated studies.

Each study has variants of metrics (three variants share 90% of a metric's own variance) and a
target, drawn here; nothing but the analysis of a study uses the product's code. Every level of
every factor is in at least one cell:

* models: 5, 8, 12, 17, 23, 90, in families of unequal sizes; variants: 20, 60, 450;
* share of every column's variance between families: 0, 50, 80%;
* labels that the analysis is given: right; `alone` (each model a family of its own); `merged` (two
  families under one name); `shuffled` (dealt out at random); `alone, developers right`: families
  unknown, but the first part of the models' ids has them;
* values: normal; t with 2 degrees of freedom; rounded to five levels, so tied; three outlying
  models (8 times the spread, in metrics and target); every tenth value missing;
* signal: none; one metric of .8, .9 or .95; all of .6. 'between' has families that differ by
  −.8 while models within them agree by +.8.

What is counted: studies with a false claim ('tracks' for a metric without relation to the target),
studies in which the good metric is found, coverage of the interval of the metric with the largest
rho, studies where the truly best is among those not distinguishable from the best, false leads over
a baseline, a preregistered metric without relation confirmed, a preregistered metric of .8
confirmed, decisions that contradict their interval, and the mean of choosing held out.

A run keeps the cells that are in `--out` and goes on with the others, also after it was stopped:

python benchmarks/inference_simulation.py --out benchmarks/inference_simulation.json
"""

from __future__ import annotations

import functools
import json
import math
import textwrap
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import click
import numpy as np
from marked_tables import RESULTS, marked, replace_marked

import analysis.statistics.simultaneous as simultaneous
from analysis.statistics.correlations import Floats, Indices
from analysis.statistics.decisions import decide
from analysis.statistics.resampling import choice_procedure
from analysis.statistics.simultaneous import indistinguishable, joint_errors, p_above
from warehouse.store.provenance import code_revision

BLOCK = "inference_simulation.json"
PER_METRIC = 3
WITHIN_METRIC = 0.9
DRAWS = 499
"""Of each null law; the product takes 2,000."""

SETS = 100
"""Studies of each cell that also get comparisons with the best and the baseline, and splits."""

FAMILIES = {
    5: (2, 2, 1), 8: (4, 3, 1), 12: (6, 3, 2, 1), 17: (9, 5, 2, 1), 23: (8, 6, 4, 3, 2),
    90: (*(2,) * 30, *(3,) * 10),
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One design; see the head of this module."""

    models: int
    variants: int = 60
    shared: float = 0.0
    labels: str = "right"
    values: str = "normal"
    signal: str = "none"
    studies: int = 1000


CELLS = (
    *(Cell(n) for n in (5, 8, 12, 17, 23)),
    *(Cell(n, shared=0.5) for n in (5, 8, 12, 17, 23)),
    *(Cell(n, shared=0.8) for n in (5, 8, 12, 17, 23)),
    Cell(8, variants=20), Cell(17, variants=20, shared=0.5),
    *(Cell(17, shared=0.5, labels=name) for name in
      ("alone", "merged", "shuffled", "alone, developers right")),
    Cell(8, shared=0.5, labels="alone"), Cell(17, labels="alone"),
    *(Cell(17, values=name) for name in ("heavy tails", "tied", "outliers")),
    Cell(17, values="missing", studies=200),
    Cell(8, values="tied"), Cell(23, shared=0.5, values="missing", studies=200),
    Cell(8, signal="one .95"), Cell(12, signal="one .9", shared=0.5),
    *(Cell(17, signal=f"one {size}") for size in (".8", ".9", ".95")),
    Cell(17, signal="one .9", shared=0.5), Cell(17, signal="one .9", shared=0.8),
    Cell(17, signal="all .6"), Cell(17, signal="between", shared=0.5),
    Cell(23, signal="one .8", shared=0.5), Cell(17, signal="one .9", values="tied"),
    Cell(8, variants=450, studies=1000), Cell(17, variants=450, shared=0.5, studies=1000),
    Cell(90, shared=0.5, studies=200), Cell(90, shared=0.5, signal="one .8", studies=200),
    Cell(90, shared=0.8, studies=200),
)  # fmt: skip


def columns(generator: np.random.Generator, cell: Cell, groups: Indices, *shape: int) -> Floats:
    """`[..., n]` of variance 1 (before tails), families sharing a part of it."""

    def draw(size: tuple[int, ...]) -> Floats:
        if cell.values == "heavy tails":
            return np.asarray(generator.standard_t(2, size))
        return generator.normal(size=size)

    own = math.sqrt(1.0 - cell.shared) * draw((*shape, groups.size))
    levels = draw((*shape, int(groups.max()) + 1))
    return np.asarray(own + math.sqrt(cell.shared) * levels[..., groups])


def study(cell: Cell, number: int) -> tuple[Floats, Floats, Floats, dict[str, list[int]]]:
    """`[K, n]` metrics, `[n]` target, `[K]` true relations (rho) and the labels."""
    generator = np.random.default_rng([number, CELLS.index(cell)])
    groups = np.repeat(np.arange(len(FAMILIES[cell.models])), FAMILIES[cell.models])
    target = columns(generator, cell, groups)
    count = math.ceil(cell.variants / PER_METRIC)
    metric = columns(generator, cell, groups, count)[:, None]
    own = columns(generator, cell, groups, count, PER_METRIC)
    rest = math.sqrt(WITHIN_METRIC) * metric + math.sqrt(1.0 - WITHIN_METRIC) * own
    rho = np.zeros((count, 1, 1))
    if cell.signal.startswith("one"):
        rho[0] = float(cell.signal.split()[1])
    elif cell.signal.startswith("all"):
        rho[:] = float(cell.signal.split()[1])
    metrics = rho * target + np.sqrt(1.0 - rho**2) * rest
    if cell.signal == "between":  # only the first metric is related, and not in one way
        level = np.array([target[groups == g].mean() for g in range(groups.max() + 1)])[groups]
        within = 0.8 * (target - level) + 0.6 * (rest[0] - rest[0].mean())
        metrics[0] = within - 2.0 * level
    metrics = metrics.reshape(-1, groups.size)[: cell.variants]
    truth = np.repeat(rho[:, 0, 0], PER_METRIC)[: cell.variants]
    if cell.values == "tied":
        metrics, target = np.round(metrics * 1.2), np.round(target * 1.2)
    elif cell.values == "outliers":
        far = generator.permutation(groups.size)[:3]
        metrics[:, far] *= 8.0
        target[far] *= 8.0
    elif cell.values == "missing":
        gone = generator.random((count, 1, groups.size)) < 0.1  # alike for variants of a metric
        metrics[np.broadcast_to(gone, rest.shape).reshape(-1, groups.size)[: cell.variants]] = (
            math.nan
        )
    alone = np.arange(groups.size)
    labels = {
        "right": groups, "merged": groups // 2, "shuffled": generator.permutation(groups),
    }.get(cell.labels, alone)  # fmt: skip
    developers = groups if "developers right" in cell.labels else labels
    return metrics, target, truth, {"f": labels.tolist(), "s": alone.tolist(),
                                    "d": developers.tolist()}  # fmt: skip


def simulate(cell: Cell) -> dict[str, Any]:
    """Rates over the studies of a cell."""
    found: dict[str, list[float]] = {}

    def count(name: str, value: bool | float) -> None:
        found.setdefault(name, []).append(float(value))

    for number in range(cell.studies):
        metrics, target, truth, labels = study(cell, number)
        groupings = [labels["s"], labels["d"]]
        result = decide(metrics, target, labels["f"], groupings, number, draws=DRAWS)
        verdicts = np.array([result.verdict(k) for k in range(len(metrics))])
        claims = verdicts == "tracks"
        unrelated = truth == 0.0
        if cell.signal == "between":
            unrelated[:PER_METRIC] = False
        if cell.signal != "all .6":
            count("false_claim", claims[unrelated].any())
        count("opposite_claim", (verdicts == "opposite")[unrelated].any())
        count("too_few", result.too_few)
        if (truth > 0).any():
            count("power", claims[truth > 0].any())
        overall = result.overall
        below = overall.p < result.level
        above = np.array([overall.interval(k).low > 0 for k in range(len(metrics))])
        count("contradiction", (below != above).any())
        if overall.tested.any() and cell.signal != "between" and cell.values != "tied":
            best = int(np.nanargmax(overall.rho))
            interval, true = overall.interval(best), 6.0 / math.pi * math.asin(truth[best] / 2.0)
            count("covers", interval.low <= true <= interval.high)
            count("width", interval.high - interval.low)
        for name, row in (("null", metrics[-1]), ("good", None)):
            if row is None:
                noise = columns(np.random.default_rng([number, 77]), cell,
                                np.array(labels["f"]))  # fmt: skip
                if cell.labels != "right" or cell.values not in ("normal", "heavy tails"):
                    continue
                row = 0.8 * target + 0.6 * noise
            elif cell.signal != "none" or np.isnan(row).any():
                continue
            alone = decide(row[None], target, labels["f"], groupings, number, draws=DRAWS)
            count(f"confirmed_{name}", alone.verdict(0) == "tracks")
        if number < SETS and not np.isnan(metrics).any() and np.ptp(target) > 0:
            errors = joint_errors(metrics, target, [labels["f"], *groupings])
            near = indistinguishable(errors)
            tops = np.flatnonzero(truth == truth.max())
            count("best_held", bool(near[tops[0]]))
            if cell.signal in ("none", "all .6"):
                lead = p_above(errors, len(metrics) - 1) < 0.05
                count("false_lead", bool(lead.any()) and not result.too_few)
            chosen = choice_procedure(
                metrics, target, [labels["f"], labels["d"]], number, splits=20
            )
            if chosen.splits:
                count("held_out", chosen.held_out)
                count("in_sample", chosen.in_sample)
    record: dict[str, Any] = asdict(cell)
    for name, values in found.items():
        mean, size = float(np.mean(values)), len(values)
        record[name] = [
            round(mean, 4), round(float(np.std(values)) / math.sqrt(size), 4), size,
        ]  # fmt: skip
    return record


def _cost(cell: Cell) -> float:
    """Of a study, roughly: the number of values that are ranked."""
    masks = cell.variants / PER_METRIC if cell.values == "missing" else 1
    return cell.studies * masks * cell.variants * cell.models


COLUMNS = (
    ("false claim", "false_claim"), ("good metric tracks", "power"), ("95% CI covers", "covers"),
    ("preregistered: false", "confirmed_null"), (".8 confirmed", "confirmed_good"),
    ("best is in the set", "best_held"), ("false lead", "false_lead"), ("too few", "too_few"),
)  # fmt: skip


def results_block(found: dict[str, Any]) -> str:
    """The table as the docs show it, from the JSON alone."""

    def cell_text(row: dict[str, Any], name: str) -> str:
        if name not in row:
            return "–"
        mean, error, _ = row[name]
        return f"{100 * mean:.1f} ± {100 * error:.1f}"

    heads = ["models", "variants", "shared", "labels", "values", "signal", "studies"]
    heads += [head for head, _ in COLUMNS] + ["choice: in sample, held out"]
    lines = [
        f"`{found['command']}`, {found['cpu_seconds'] / 60:.0f} min of processor time; percent of "
        "studies ± Monte Carlo standard error.",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---:|' * 3}---|---|---|{'---:|' * (len(heads) - 6)}",
    ]
    for row in found["cells"]:
        cells = [str(row["models"]), str(row["variants"]), f"{100 * row['shared']:.0f}%"]
        cells += [row["labels"], row["values"], row["signal"], f"{row['studies']:,}"]
        cells += [cell_text(row, name) for _, name in COLUMNS]
        held = "–"
        if "held_out" in row:
            held = (
                f"{row['in_sample'][0]:+.2f}, {row['held_out'][0]:+.2f} ± {row['held_out'][1]:.2f}"
            )
        lines.append(f"| {' | '.join([*cells, held])} |")
    return marked(BLOCK, lines)


def summary_block(found: dict[str, Any]) -> str:
    """What the table shows, in a few lines, and every cell that misses a goal."""
    cells = found["cells"]
    sound = [row for row in cells if row["labels"] == "right" and row["values"] != "outliers"]

    def span(name: str, rows: list[dict[str, Any]]) -> str:
        rates = [100 * row[name][0] for row in rows if name in row]
        return f"{min(rates):.1f} to {max(rates):.1f}%"

    lines = [
        f"{len(cells)} cells, {len(CELLS) - len(cells)} of the {len(CELLS)} are missing.",
        "",
        "- With right labels and values that are "
        f"{', '.join(sorted({row['values'] for row in sound}))}, families sharing "
        f"{', '.join(sorted({format(row['shared'], '.0%') for row in sound}))}, "
        f"{', '.join(map(str, sorted({row['models'] for row in sound})))} models: false claims in "
        f"{span('false_claim', sound)} of studies, preregistered metrics "
        f"confirmed without relation in {span('confirmed_null', sound)}; the interval of the "
        f"metric with the largest rho covers its true rho in {span('covers', sound)}.",
    ]
    good = [
        f"{100 * row['power'][0]:.0f}% ({row['models']} models, {row['signal']}, "
        f"{100 * row['shared']:.0f}% shared, {row['values']})"
        for row in cells
        if "power" in row and row["labels"] == "right"
    ]
    lines.append(f"- Power, a related metric has the verdict `tracks`: {'; '.join(good)}.")
    missed = [
        f"{row['models']} models, {row['variants']} variants, {100 * row['shared']:.0f}% shared, "
        f"labels {row['labels']}, {row['values']}: {what} {100 * row[name][0]:.1f} ± "
        f"{100 * row[name][1]:.1f}%"
        for row in cells
        for name, what in (
            ("false_claim", "false claims"),
            ("confirmed_null", "preregistered, confirmed without relation"),
            ("false_lead", "false leads over a baseline"),
        )
        if name in row and row[name][0] - 2 * row[name][1] > 0.05
    ]
    if missed:
        lines += ["- Goals of 5% that aren't reached:", *(f"    - {text}" for text in missed)]
    return marked(f"{BLOCK}, in short", [
        textwrap.fill(line, 110, subsequent_indent="  " if line.startswith("- ") else "      ",
                      break_on_hyphens=False, break_long_words=False)
        for line in lines
    ])  # fmt: skip


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--pages", is_flag=True, help="Write table and summary to their pages.")
@click.option("--minutes", default=600.0, help="Start no cell after so many minutes.")
def main(out: Path, pages: bool, minutes: float) -> None:
    """Simulate the cells that are missing in `--out`; with `--pages`, write the tables."""
    start = time.perf_counter()
    # the product draws the same numbers for every study of n models
    drawn = simultaneous._standard_normals
    simultaneous._standard_normals = functools.cache(lambda n, draws: list(drawn(n, draws)))
    command = "python benchmarks/inference_simulation.py --out benchmarks/inference_simulation.json"
    fresh: dict[str, Any] = {"command": command, "cpu_seconds": 0.0, "draws": DRAWS, "cells": []}
    found = cast("dict[str, Any]", json.loads(out.read_text("utf-8"))) if out.is_file() else fresh
    designs = [asdict(cell) for cell in CELLS]
    keys = list(designs[0])
    kept = [row for row in found["cells"] if {key: row[key] for key in keys} in designs]
    found |= {"revision": code_revision()["revision"], "cells": kept}
    done = [{key: row[key] for key in keys} for row in kept]
    for cell in sorted(CELLS, key=_cost):
        if asdict(cell) in done or time.perf_counter() - start > 60 * minutes:
            continue
        before = time.process_time()
        row = simulate(cell)
        found["cells"].append(row)
        found["cells"].sort(key=lambda row: designs.index({key: row[key] for key in keys}))
        found["cpu_seconds"] = round(found["cpu_seconds"] + time.process_time() - before, 1)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        click.echo(f"{time.perf_counter() - start:.0f} s: {row}")
    missing = len(CELLS) - len(found["cells"])
    click.echo(f"{missing} cells are missing" if missing else "complete")
    if pages:
        replace_marked(RESULTS, BLOCK, results_block(found))
        page = RESULTS.parents[1] / "docs" / "explanation" / "statistics.md"
        replace_marked(page, f"{BLOCK}, in short", summary_block(found))


if __name__ == "__main__":
    main()
