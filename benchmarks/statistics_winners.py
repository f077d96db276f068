"""What is claimed after choosing: does it hold? 432 variants of 24 metrics, 17 models.

Two promises are simulated, in five worlds that differ in what makes models alike:

* the interval of the chosen variant covers its true correlation, and so does that of its estimate
  for a new family;
* a metric that tracks nothing is called the winner in at most 5% of studies, and one that
  tracks the target is found (power).

The worlds: independent models; the locked problem's families, which share half of the variance;
kinds of a study such as minilong (doses of a few treatments of two bases), which share 45%; doses
that move all their models along a line whose slope is drawn for each series, metric and target
alone; and the last two with families on top. Nothing here comes from real data, and no constant of
the rule was set by what it prints.

python benchmarks/statistics_winners.py --out benchmarks/statistics_winners.json
"""

from __future__ import annotations

import json
import math
import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import marked_tables
import numpy as np

from analysis.statistics.after_choice import winner_interval
from analysis.statistics.correlations import Floats
from analysis.statistics.families import family_interval
from analysis.statistics.pooling import new_family
from analysis.statistics.winner import winner_conditions
from warehouse.store.provenance import code_revision

BLOCK = "statistics_winners.json"

METRICS, PER_METRIC = 24, 18
WITHIN_METRIC = 0.9
"""Share of the variance that variants of one metric have in common."""

PERMUTATIONS = 400
_PROCESSES = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)

LOCKED_FAMILIES = ("qwen",) * 9 + ("llama2",) * 5 + ("mistral",) * 2 + ("yi",)
DOSES = (
    ("small", "base", 0), ("small", "rope", 1), ("small", "rope", 2), ("small", "rope", 3),
    ("small", "linear", 1), ("small", "linear", 2), ("small", "window", 1),
    ("small", "window", 2), ("small", "window", 3), ("small", "noise", 1),
    ("small", "noise", 2), ("small", "drop", 1), ("large", "base", 0),
    ("large", "window", 1), ("large", "window", 2), ("large", "noise", 1), ("large", "noise", 2),
)  # fmt: skip
"""Family, kind and dose of each model; a base is the dose 0 of nothing else."""


@dataclass(frozen=True)
class World:
    """How models are alike: shares of the variance of every column, drawn for each alone."""

    name: str
    families: tuple[str, ...]
    kinds: tuple[str, ...] | None = None
    doses: tuple[int, ...] = ()
    family_share: float = 0.0
    level_share: float = 0.0
    slope_share: float = 0.0

    def columns(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Columns `[..., n]` of unit variance."""
        own = 1.0 - self.family_share - self.level_share - self.slope_share
        result = math.sqrt(own) * generator.normal(size=(*shape, len(self.families)))
        result += math.sqrt(self.family_share) * _drawn(generator, shape, self.families)
        if self.kinds is not None:
            series = [f"{f} {k}" for f, k in zip(self.families, self.kinds, strict=True)]
            result += math.sqrt(self.level_share) * _drawn(generator, shape, series)
            dose = np.array(self.doses, dtype=np.float64)
            dose /= math.sqrt(float((dose**2).mean()))
            result += math.sqrt(self.slope_share) * dose * _drawn(generator, shape, series)
        return np.asarray(result)


def _drawn(generator: np.random.Generator, shape: tuple[int, ...], labels: Sequence[str]) -> Floats:
    codes = np.unique(labels, return_inverse=True)[1]
    return np.asarray(generator.normal(size=(*shape, codes.max() + 1))[..., codes])


DOSE_STUDY = {
    "families": tuple(family for family, _, _ in DOSES),
    "kinds": tuple(kind for _, kind, _ in DOSES),
    "doses": tuple(dose for _, _, dose in DOSES),
}
WORLDS = (
    World("independent models", tuple(f"lab {model}" for model in range(17))),
    World("families share 50%", LOCKED_FAMILIES, family_share=0.5),
    World("kinds share 45%", level_share=0.45, **DOSE_STUDY),
    World("doses along lines, 45%", slope_share=0.45, **DOSE_STUDY),
    World("families 20%, kinds 25%", family_share=0.2, level_share=0.25, **DOSE_STUDY),
    World("families 20%, doses 35%", family_share=0.2, slope_share=0.35, **DOSE_STUDY),
)
SIGNALS: dict[str, Floats] = {
    "none": np.zeros(METRICS),
    "all metrics rho .5": np.full(METRICS, 0.5),
    "from 0 to .8": np.linspace(0.0, 0.8, METRICS),
    "one metric rho .9": np.array([0.9] + [0.0] * (METRICS - 1)),
}
POWER_SIGNALS: dict[str, Floats] = {
    "none": SIGNALS["none"],
    "one metric rho .8": np.array([0.8] + [0.0] * (METRICS - 1)),
    "one metric rho .95": np.array([0.95] + [0.0] * (METRICS - 1)),
}


def library(
    generator: np.random.Generator, world: World, rho: Floats
) -> tuple[Floats, Floats, list[str]]:
    """`[432, 17]` variants, the target and each variant's metric."""
    target = world.columns(generator, ())
    common = rho[:, None] * target + np.sqrt(1 - rho**2)[:, None] * world.columns(
        generator, (METRICS,)
    )
    own = world.columns(generator, (METRICS, PER_METRIC))
    variants = math.sqrt(WITHIN_METRIC) * common[:, None] + math.sqrt(1 - WITHIN_METRIC) * own
    groups = [str(i) for i in np.repeat(np.arange(METRICS), PER_METRIC)]
    return variants.reshape(METRICS * PER_METRIC, -1), target, groups


def true_spearman(world: World, rho: float, draws: int = 20_000) -> float:
    """Spearman in the population of models: one model of each of many studies."""
    generator = np.random.default_rng(99)
    target, noise, own = (world.columns(generator, (draws,)) for _ in range(3))
    common = rho * target + math.sqrt(1 - rho**2) * noise
    variant = math.sqrt(WITHIN_METRIC) * common + math.sqrt(1 - WITHIN_METRIC) * own
    return _large_spearman(variant.ravel(), target.ravel())


def _large_spearman(x: Floats, y: Floats) -> float:
    ranks = [values.argsort().argsort().astype(np.float64) for values in (x, y)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def coverage(world: World, signal: str, studies: int) -> dict[str, Any]:
    """How often intervals of the chosen variant hold its true Spearman."""
    rho = SIGNALS[signal]
    truths = {value: true_spearman(world, value) for value in set(rho.tolist())}
    groupings = [world.families, *([world.kinds] if world.kinds else [])]
    kinds = world.kinds or tuple(str(model) for model in range(len(world.families)))
    hits, widths = np.zeros(2), np.zeros(2)
    elsewhere: list[tuple[bool, float]] = []
    too_high, estimated = 0.0, 0.0
    for study in range(studies):
        generator = np.random.default_rng([study, 7])
        metrics, target, groups = library(generator, world, rho)
        found = winner_interval(metrics, target, groupings, study, PERMUTATIONS)
        truth = truths[float(rho[int(groups[found.best])])]
        best = metrics[found.best]
        usual = family_interval(best, target, world.families)
        for index, interval in enumerate((found.interval, usual)):
            hits[index] += interval.low <= truth <= interval.high
            widths[index] += interval.high - interval.low
        new = new_family(best, target, world.families, kinds, found.critical).interval
        if not math.isnan(new.low):
            elsewhere.append((new.low <= truth <= new.high, new.high - new.low))
        too_high += abs(found.value) - math.copysign(truth, found.value)
        estimated += found.optimism
    return {
        "world": world.name,
        "signal": signal,
        "covers": _rounded(hits[0] / studies),
        "width": _rounded(widths[0] / studies),
        "new_family_covers": _rounded(np.mean([row[0] for row in elsewhere]))
        if elsewhere
        else None,
        "new_family_width": _rounded(np.mean([row[1] for row in elsewhere])) if elsewhere else None,
        "usual_interval_covers": _rounded(hits[1] / studies),
        "usual_width": _rounded(widths[1] / studies),
        "too_high_by": _rounded(too_high / studies),
        "optimism_estimated": _rounded(estimated / studies),
    }


def winners(world: World, signal: str, studies: int) -> dict[str, Any]:
    """How often the rule names a winner, and how often a wrong one."""
    rho = POWER_SIGNALS[signal]
    right = wrong = 0
    failures: dict[str, int] = {}
    untestable: set[str] = set()
    for study in range(studies):
        generator = np.random.default_rng([study, 8])
        metrics, target, groups = library(generator, world, rho)
        found = winner_conditions(
            metrics, target, world.families, groups, study, PERMUTATIONS, world.kinds
        )
        tracks = rho[int(groups[found.best])] > 0
        right += found.wins and tracks
        wrong += found.wins and not tracks
        untestable |= set(found.untestable)
        for condition in found.failed:
            failures[condition] = failures.get(condition, 0) + 1
    return {
        "world": world.name,
        "signal": signal,
        "right": _rounded(right / studies),
        "wrong": _rounded(wrong / studies),
        "fails": {name: _rounded(count / studies) for name, count in sorted(failures.items())},
        "untestable": sorted(untestable),
    }


def results_block(tables: dict[str, Any]) -> str:
    """Both tables as `RESULTS.md` shows them, from the JSON alone."""
    coverage_cells: dict[str, list[str]] = {}
    for row in tables["coverage"]:
        new = row["new_family_covers"]
        cell = f"**{row['covers']:.0%}** ({row['width']:.2f}); "
        cell += "–" if new is None else f"{new:.0%} ({row['new_family_width']:.2f})"
        coverage_cells.setdefault(row["world"], []).append(
            f"{cell}; {row['usual_interval_covers']:.0%}"
        )
    winner_cells: dict[str, list[str]] = {}
    for row in tables["winners"]:
        wrong, right = (f"{100 * row[name]:.3g}" for name in ("wrong", "right"))
        cell = f"**{wrong}**" if row["signal"] == "none" else f"{right} ({wrong})"
        winner_cells.setdefault(row["world"], []).append(cell)
    studies = {row["signal"]: row["studies"] for row in tables["winners"]}
    lines = [
        f"`{tables['command']}` took {tables['seconds'] / 60:.0f} min "
        f"({tables['cpu_seconds'] / 60:.0f} min of processor time).",
        "",
        "How often the 95% interval of the chosen variant covers its true Spearman (its mean "
        "width), how often the estimate for a new family does, and the usual family interval; "
        f"{tables['coverage'][0]['studies']} studies each:",
        "",
        "| models | all metrics 0 | all .5 | from 0 to .8 | one .9 |",
        "|---|---|---|---|---|",
        *(f"| {world} | {' | '.join(cells)} |" for world, cells in coverage_cells.items()),
        "",
        "What the rule calls a winner, in percent of studies "
        f"({studies['none']} without signal, {studies['one metric rho .8']} with one good metric):",
        "",
        "| models | no signal: **false winner** | rho .8: right (wrong) | rho .95: right (wrong) |",
        "|---|---|---|---|",
        *(f"| {world} | {' | '.join(cells)} |" for world, cells in winner_cells.items()),
    ]
    return marked_tables.marked(BLOCK, lines)


def _rounded(value: float) -> float:
    return round(float(value), 4)


def _task(task: tuple[str, World, str, int]) -> dict[str, Any]:
    what, world, signal, studies = task
    return (coverage if what == "coverage" else winners)(world, signal, studies)


@click.command()
@click.option("--studies", default=120, show_default=True, help="Simulated studies a setting.")
@click.option(
    "--null-studies", default=400, show_default=True, help="Where a winner is a false one."
)
@click.option("--jobs", default=2, show_default=True, help="Processes.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the tables as JSON.")
@click.option(
    "--results", type=click.Path(path_type=Path), help="Put the tables into this Markdown file."
)
def main(
    studies: int, null_studies: int, jobs: int, out: Path | None, results: Path | None
) -> None:
    """Print both tables, and save them where asked."""
    start = time.perf_counter()
    tables: dict[str, Any] = {
        "command": f"python benchmarks/statistics_winners.py --studies {studies} "
        f"--null-studies {null_studies} --out benchmarks/statistics_winners.json",
        "revision": code_revision()["revision"],
        "models": 17,
        "metrics": METRICS,
        "variants": METRICS * PER_METRIC,
        "permutations": PERMUTATIONS,
    }
    with ProcessPoolExecutor(jobs) as pool:
        for what, signals in (("winners", POWER_SIGNALS), ("coverage", SIGNALS)):
            tables[what] = []
            tasks = [
                (
                    what,
                    world,
                    signal,
                    null_studies if (what, signal) == ("winners", "none") else studies,
                )
                for world in WORLDS
                for signal in signals
            ]
            for task, row in zip(tasks, pool.map(_task, tasks), strict=True):
                tables[what].append({"studies": task[-1], **row})
                click.echo(f"{what}: {tables[what][-1]}")
    tables["seconds"] = round(time.perf_counter() - start)
    tables["cpu_seconds"] = round(sum(resource.getrusage(who).ru_utime for who in _PROCESSES))
    click.echo(f"{tables['seconds']} s")
    if out is not None:
        out.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
    if results is not None:
        marked_tables.replace_marked(results, BLOCK, results_block(tables))


if __name__ == "__main__":
    main()
