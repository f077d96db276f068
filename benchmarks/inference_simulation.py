"""How often are the claims of `correlate`, `select` and `preregister` right? Simulated studies.

Each study has variants of metrics (three variants share 90% of a metric's own variance) and a
target, drawn here; nothing but the analysis of a study uses the product's code. Every level of
every factor is in at least one cell:

* models: 5, 8, 12, 17, 23, 90, in families of unequal sizes; variants: 20, 60, 450;
* share of every column's variance between families: 0, 50, 80%;
* labels that the analysis is given: right; `alone` (each model a family of its own); `merged` (two
  families under one name); `shuffled` (dealt out at random); `alone, developers right`: families
  unknown, but the first part of the models' ids has them; `series`: models of a family are in
  series of up to three, which share half of what the family leaves;
* values: normal; t with 2 degrees of freedom; rounded to five levels, so tied; three outlying
  models (8 times the spread, in metrics and target), or three that are outlying together, with one
  sign for all; every tenth value missing;
* signal: none; one metric of .8, .9 or .95, alone or over a baseline of .6; all of .6 or .9.
  'between' has families that differ by −.8 while models within them agree by +.8.

What is counted: studies with a false claim ('tracks' for a metric without relation to the target),
or the opposite one, studies in which the good metric is found, coverage of the interval of the
metric with the largest rho, studies where the truly best is among those not distinguishable from
the best, false and right leads over a baseline (the last metric), a preregistered metric without
relation confirmed, a preregistered metric of .8 confirmed, decisions that contradict their
interval, and the mean of choosing held out.

A run keeps the studies that are in `--out` and goes on, also after it was stopped: at first to 100
studies of each cell, then to all:

    python benchmarks/inference_simulation.py
"""

from __future__ import annotations

import functools
import json
import math
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from marked_tables import RESULTS, ROOT, marked, replace_marked, table

import analysis.statistics.decisions as decisions
import analysis.statistics.simultaneous as simultaneous
from analysis.statistics.correlations import Floats, Indices
from analysis.statistics.decisions import decide
from analysis.statistics.resampling import choice_procedure
from analysis.statistics.simultaneous import ahead_of, indistinguishable, joint_errors
from warehouse.files import write_whole
from warehouse.store.provenance import code_revision

BLOCK = "inference_simulation.json"
OUT = Path(__file__).resolve().with_name(BLOCK)
PER_METRIC = 3
WITHIN_METRIC = 0.9
DRAWS = 499
"""Of each null law; the product takes 2,000, and more where a verdict depends on them."""

FIXED = {"draws": DRAWS, "most_draws": DRAWS}

FIRST_STUDIES = 100
"""Of each cell, before any has more."""

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
    *(Cell(n, shared=0.5, labels="series") for n in (8, 17, 23)),
    Cell(23, shared=0.5, labels="series", signal="one .9"),
    *(Cell(n, values="outliers") for n in (8, 23)), Cell(17, values="outliers", signal="one .9"),
    Cell(17, values="outlying together"), Cell(23, shared=0.5, labels="alone"),
    Cell(8, signal="all .9"), Cell(17, signal="all .6", shared=0.5),
    Cell(17, signal="all .6", values="outliers"),
    *(Cell(17, signal=f"all {size}", shared=0.5, labels="alone") for size in (".6", ".9")),
    Cell(17, signal="one .95 over .6"),
    Cell(23, signal="one .95 over .6", shared=0.5),
)  # fmt: skip


def columns(generator: np.random.Generator, cell: Cell, groups: Indices, *shape: int) -> Floats:
    """`[..., n]` of variance 1 (before tails), families sharing a part of it."""

    def draw(size: tuple[int, ...]) -> Floats:
        if cell.values == "heavy tails":
            return np.asarray(generator.standard_t(2, size))
        return generator.normal(size=size)

    values = math.sqrt(1.0 - cell.shared) * draw((*shape, groups.size))
    if cell.labels == "series":
        series = series_within(groups)
        values = (
            math.sqrt(0.5) * values
            + math.sqrt(0.5 * (1.0 - cell.shared))
            * draw((*shape, int(series.max()) + 1))[..., series]
        )
    levels = draw((*shape, int(groups.max()) + 1))
    return np.asarray(values + math.sqrt(cell.shared) * levels[..., groups])


def series_within(groups: Indices) -> Indices:
    """Series of up to two models of one family, one after the other."""
    series: list[int] = []
    for size in np.bincount(groups):
        first = series[-1] + 1 if series else 0
        series += [first + place // 2 for place in range(size)]
    return np.array(series)


def study(cell: Cell, number: int) -> tuple[Floats, Floats, Floats, dict[str, list[int]]]:
    """`[K, n]` metrics, `[n]` target, `[K]` true relations (rho) and the labels."""
    generator = np.random.default_rng([number, CELLS.index(cell)])
    groups = np.repeat(np.arange(len(FAMILIES[cell.models])), FAMILIES[cell.models])
    target = columns(generator, cell, groups)
    count = math.ceil(cell.variants / PER_METRIC)
    metric = columns(generator, cell, groups, count)[:, None]
    of_variant = columns(generator, cell, groups, count, PER_METRIC)
    rest = math.sqrt(WITHIN_METRIC) * metric + math.sqrt(1.0 - WITHIN_METRIC) * of_variant
    rho = np.zeros((count, 1, 1))
    if cell.signal.startswith("one"):
        rho[0] = float(cell.signal.split()[1])
    elif cell.signal.startswith("all"):
        rho[:] = float(cell.signal.split()[1])
    if "over" in cell.signal:
        rho[-1] = float(cell.signal.split()[-1])
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
    elif cell.values == "outlying together":
        far = generator.permutation(groups.size)[:3]
        metrics[:, far] = 8.0 * generator.choice([-1.0, 1.0], (len(metrics), 1)) + metrics[:, far]
        target[far] += 8.0 * generator.choice([-1.0, 1.0])
    elif cell.values == "missing":
        gone = generator.random((count, 1, groups.size)) < 0.1  # alike for variants of a metric
        metrics[np.broadcast_to(gone, rest.shape).reshape(-1, groups.size)[: cell.variants]] = (
            math.nan
        )
    alone = np.arange(groups.size)
    labels = {
        "right": groups, "merged": groups // 2, "shuffled": generator.permutation(groups),
    }.get(cell.labels, alone)  # fmt: skip
    if cell.labels == "series":
        labels, alone = groups, series_within(groups)
    developers = groups if "developers right" in cell.labels else labels
    return metrics, target, truth, {"f": labels.tolist(), "s": alone.tolist(),
                                    "d": developers.tolist()}  # fmt: skip


def true_rho(cell: Cell, correlation: float) -> float:
    """Spearman's rho in the population, of a metric and a target with this Pearson correlation.

    For normal values 6/π · arcsin(correlation / 2) (Kruskal 1958). Three outlying models have a
    larger spread: the mean over the spreads of three models, since rho compares the metric of one
    model with that of a second, and its target with that of a third.
    """
    far = 3 / cell.models if cell.values == "outliers" else 0.0
    spreads = ((1.0, 1.0 - far), (8.0, far))
    total = 0.0
    for (own, share), (x, x_share), (y, y_share) in product(spreads, repeat=3):
        arcsine = math.asin(correlation * own**2 / math.hypot(own, x) / math.hypot(own, y))
        total += share * x_share * y_share * 6.0 / math.pi * arcsine
    return total


def simulate(cell: Cell, first: int, last: int) -> dict[str, Any]:
    """Rates over some studies of a cell, by their numbers."""
    counts: dict[str, list[float]] = {}

    def count(name: str, value: bool | float) -> None:
        counts.setdefault(name, []).append(float(value))

    for number in range(first, last):
        metrics, target, truth, labels = study(cell, number)
        groupings = [labels["s"], labels["d"]]
        result = decide(metrics, target, labels["f"], groupings, number, **FIXED)
        verdicts = np.array([result.verdict(k) for k in range(len(metrics))])
        # what is undecided by few draws would be decided by more, one way or the other
        claimed = [bool(result.evidence(k)) and v in ("tracks", "undecided")
                   for k, v in enumerate(verdicts)]  # fmt: skip
        claims = np.array(claimed)
        unrelated = truth == 0.0
        if cell.signal == "between":
            unrelated[:PER_METRIC] = False
        if unrelated.any():
            count("false_claim", claims[unrelated].any())
        highs = np.array([result.overall.interval(k).high for k in range(len(metrics))])
        opposite = ~claims & (highs < 0.0) & (not result.too_few)
        if unrelated.any():
            count("opposite_claim", opposite[unrelated].any())
        count("too_few", result.too_few)
        if (truth > 0).any():
            count("power", claims[truth > 0].any())
        overall = result.overall
        below = overall.p < result.level
        above = np.array([overall.interval(k).low > 0 for k in range(len(metrics))])
        count("contradiction", (below != above).any())
        if overall.tested.any() and cell.signal != "between" and cell.values != "tied":
            best = int(np.nanargmax(overall.rho))
            interval, true = overall.interval(best), true_rho(cell, truth[best])
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
            alone = decide(row[None], target, labels["f"], groupings, number, **FIXED)
            count(f"confirmed_{name}", bool(alone.evidence(0)) and not alone.too_few)
        if np.isnan(metrics).any() or np.ptp(target) == 0:
            continue
        errors = joint_errors(metrics, target, [labels["f"], *groupings])
        leads = claims.any() and claims & (
            ahead_of(errors, len(metrics) - 1, labels["s"], **FIXED)[0] < 0.05
        )
        if cell.signal == "none" or cell.signal.startswith("all"):
            count("false_lead", np.any(leads))
        elif cell.signal.startswith("one"):
            count("lead", np.any(leads & (truth > truth[-1])))
            count("false_lead", np.any(leads & (truth <= truth[-1])))
        if number < SETS:
            near = indistinguishable(errors)
            tops = np.flatnonzero(truth == truth.max())
            count("best_held", bool(near[tops[0]]))
            chosen = choice_procedure(
                metrics, target, [labels["f"], labels["d"]], number, splits=20
            )
            if chosen.splits:
                count("held_out", chosen.held_out)
                count("in_sample", chosen.in_sample)
    record: dict[str, Any] = asdict(cell) | {"studies": last - first}
    for name, values in counts.items():
        mean, size = float(np.mean(values)), len(values)
        record[name] = [
            round(mean, 6), round(float(np.std(values)) / math.sqrt(size), 6), size,
        ]  # fmt: skip
    return record


def together(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The rates of the studies of two records of a cell."""
    record = one | {"studies": one["studies"] + other["studies"]}
    for name, rate in other.items():
        if not isinstance(rate, list) or name not in one:
            record[name] = record[name] if name in one else rate
            continue
        (mean, error, size), (mean2, error2, size2) = one[name], rate
        total = size + size2
        both = (size * mean + size2 * mean2) / total
        squares = size * (size * error**2 + mean**2) + size2 * (size2 * error2**2 + mean2**2)
        spread = max(squares / total - both**2, 0.0)
        record[name] = [round(both, 6), round(math.sqrt(spread / total), 6), total]
    return record


def _cost(cell: Cell) -> float:
    """Of a study, roughly: the number of values that are ranked."""
    masks = cell.variants / PER_METRIC if cell.values == "missing" else 1
    return cell.studies * masks * cell.variants * cell.models


RATES = {
    "false_claim": "false claim", "opposite_claim": "opposite", "power": "good metric tracks",
    "covers": "95% CI covers",
    "confirmed_null": "preregistered: false", "confirmed_good": ".8 confirmed",
    "best_held": "best is in the set", "false_lead": "false lead", "lead": "right lead",
    "too_few": "too few",
}  # fmt: skip
"""Name → heading of the rates in the tables."""

DESIGN = {
    "models:": "{models}", "variants:": "{variants}", "shared:": "{shared:.0%}",
    "labels": "{labels}", "values": "{values}", "signal": "{signal}",
    "studies:": "{studies:,}",
}  # fmt: skip
AT_MOST_5_PERCENT = ("false_claim", "opposite_claim", "confirmed_null", "false_lead")


def cells_table(cells: list[dict[str, Any]], *rates: str) -> list[str]:
    """A row per cell: its design, these rates and, where all are shown, what choosing is worth."""

    def text(row: dict[str, Any], name: str) -> str:
        mean, error, _ = row.get(name, (None, None, None))
        return "–" if mean is None else f"{100 * mean:.1f} ± {100 * error:.1f}"

    def choice(row: dict[str, Any]) -> str:
        if "held_out" not in row:
            return "–"
        held, error, _ = row["held_out"]
        return f"{row['in_sample'][0]:+.2f}, {held:+.2f} ± {error:.2f}"

    columns = DESIGN | {f"{RATES[name]}:": f"{{{name}}}" for name in rates or RATES}
    columns |= {} if rates else {"choice: in sample, held out:": "{choice}"}
    return table(
        columns,
        ({**row, **{name: text(row, name) for name in RATES}, "choice": choice(row)}
         for row in cells),
    )  # fmt: skip


def results_block(record: dict[str, Any]) -> str:
    """The table as RESULTS.md shows it, from the JSON alone."""
    line = (
        f"`{record['command']}`, {record['cpu_seconds'] / 60:.0f} min of processor time; percent "
        f"of studies ± Monte Carlo standard error."
    )
    return marked(BLOCK, [line, "", *cells_table(record["cells"])])


def summary_block(record: dict[str, Any]) -> str:
    """What the table shows, in a few lines, power and every cell that misses a goal."""
    cells = record["cells"]
    right = [row for row in cells if row["labels"] in ("right", "series")]
    sound = [row for row in right if not row["values"].startswith("outl")]

    def span(name: str) -> str:
        rates = [row[name][0] for row in sound if name in row]
        return f"{min(rates):.1%} to {max(rates):.1%}"

    missed = [
        row
        for row in cells
        if any(row[name][0] > 0.05 for name in AT_MOST_5_PERCENT if name in row)
    ]
    power = [
        row for row in right
        if row["signal"].startswith("one") and row["models"] in (17, 23) and row["values"] != "tied"
    ]  # fmt: skip
    text = (
        f"In {len(sound)} designs with right labels and without outlying models: false claims in "
        f"{span('false_claim')} of studies, false leads in {span('false_lead')}; the interval of "
        f"the metric with the largest rho covers its true rho in {span('covers')}. "
        f"In {len(missed)} of {len(cells)} designs a rate is above 5%:"
    )
    return marked(
        f"{BLOCK}, in short",
        [
            textwrap.fill(text, 110, break_on_hyphens=False, break_long_words=False),
            "",
            *cells_table(missed, *AT_MOST_5_PERCENT),
            "",
            "Power: studies in which a related metric `tracks`, and leads the baseline:",
            "",
            *cells_table(power, "power", "lead"),
        ],
    )


def remembered(ranks: Callable[..., Floats], most: int = 64) -> Callable[..., Floats]:
    """`unit_ranks_within` that keeps the last results."""
    known: dict[tuple[Any, ...], Floats] = {}

    def ranks_once(values: Floats, families: Indices | None) -> Floats:
        key = values.shape, values.tobytes(), None if families is None else families.tobytes()
        if key not in known:
            if len(known) == most:
                del known[next(iter(known))]
            known[key] = ranks(values, families)
        return known[key]

    return ranks_once


def _design(cell: Cell | dict[str, Any]) -> tuple[Any, ...]:
    """What two records of one cell have in common."""
    row = asdict(cell) if isinstance(cell, Cell) else cell
    return tuple(row[name] for name in asdict(CELLS[0]) if name != "studies")


@click.command(help=__doc__)
@click.option("--out", type=click.Path(path_type=Path), default=OUT, help="Write the cells here.")
@click.option("--tables", is_flag=True, help="Only write the tables of the committed file.")
def main(out: Path, tables: bool) -> None:
    """Simulate what is missing; of the committed file, write the tables to the pages."""
    if not tables:
        simulate_missing(out)
    if out.resolve() == OUT:
        record = json.loads(out.read_text("utf-8"))
        replace_marked(RESULTS, BLOCK, results_block(record))
        page = ROOT / "docs" / "explanation" / "statistics.md"
        replace_marked(page, f"{BLOCK}, in short", summary_block(record))


def simulate_missing(out: Path) -> None:
    """Simulate the studies that `out` lacks, and write each cell as it is done."""
    # the product draws the same numbers for every study of n models, and the same targets for the
    # metrics of a study as for one that is preregistered
    drawn = simultaneous._standard_normals
    simultaneous._standard_normals = functools.cache(lambda n, draws: list(drawn(n, draws)))
    decisions.unit_ranks_within = remembered(decisions.unit_ranks_within)
    command = "python benchmarks/inference_simulation.py --out benchmarks/inference_simulation.json"
    record: dict[str, Any] = {"command": command, "cpu_seconds": 0.0, "draws": DRAWS, "cells": []}
    if out.is_file():
        record = json.loads(out.read_text("utf-8"))
    record["revision"] = code_revision()["revision"]
    goals = {_design(cell): cell for cell in CELLS}
    kept = {_design(row): row for row in record["cells"] if _design(row) in goals}
    for goal in (FIRST_STUDIES, max(cell.studies for cell in CELLS)):
        missing_first = sorted(goals.items(), key=lambda pair: (pair[0] in kept, _cost(pair[1])))
        for design, cell in missing_first:
            done = kept[design]["studies"] if design in kept else 0
            last = min(goal, cell.studies)
            if done >= last:
                continue
            before = time.process_time()
            new = simulate(cell, done, last)
            kept[design] = together(kept[design], new) if done else new
            record["cells"] = [kept[each] for each in goals if each in kept]
            record["cpu_seconds"] = round(record["cpu_seconds"] + time.process_time() - before, 1)
            write_whole(out, json.dumps(record, indent=1) + "\n")
            click.echo(str(kept[design]))


if __name__ == "__main__":
    main()
