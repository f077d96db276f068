"""How often are the claims of `tokenmart select` right? Simulated studies with a known truth.

Each study has 60 variants of 20 metrics (three variants share 90% of a metric's own variance) and a
target, drawn from normal laws whose correlations are set here; nothing but the analysis of a study
uses the product's code. Models resemble each other as these designs have it:

* 17 models in the families of the locked problem (9, 5, 2, 1), which share 0, 30 or 50% of the
  variance of every column, drawn for each column alone;
* 23 models in 13 series of two families: families share 20%, series 25%;
* 90 models of 40 families, which share 40%;
* 17 models whose families share 80% of the target's variance and 90% of that of four metrics, and
  nothing of the others': these four separate families.

Metrics: none correlates with the target (null); one does (.8, .9, .95); all do (.6); graded from 0
to .9. In addition: the lead over a baseline, preregistered metrics, and pairs of ranking entries.

A run keeps the cells that are in `--out` already and stops after `--minutes`; run it again until it
prints that it is complete:

python benchmarks/statistics_selection.py --minutes 9 --out benchmarks/statistics_selection.json
"""

from __future__ import annotations

import functools
import json
import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from marked_tables import marked, replace_marked

import analysis.statistics.simultaneous as simultaneous
from analysis.statistics.correlations import Floats
from analysis.statistics.families import new_family
from analysis.statistics.preregistered_tests import directed_test, exchangeable_strata, lead_p
from analysis.statistics.simultaneous import (
    indistinguishable,
    joint_errors,
    joint_errors_within,
    p_above,
)
from plugins.merging.competition.sign_flip import holm, sign_flip_p
from warehouse.store.provenance import code_revision

BLOCK = "statistics_selection.json"
METRICS, PER_METRIC = 20, 3
WITHIN_METRIC = 0.9
"""Share of the variance that variants of one metric have in common, in addition to the target."""

DRAWS = 2000
"""Behind each quantile here, to save time; the product draws 10,000."""

PERMUTATIONS = 1000
NULL_TIMES = 4
"""So many times more studies tell the level of the permutation test."""

SETS = 300
"""So many studies of each cell also get the set that can't be distinguished from the best."""

NO4K = ("qwen",) * 9 + ("llama",) * 5 + ("mistral",) * 2 + ("yi",)
SERIES = (
    ("a", 3), ("a", 2), ("a", 1), ("a", 3), ("a", 2), ("a", 2), ("a", 2), ("a", 2), ("a", 2),
    ("b", 1), ("b", 1), ("b", 1), ("b", 1),
)  # fmt: skip
"""Family and number of models of each series."""


@dataclass(frozen=True)
class Design:
    """Groups of models and the share of the variance that each level of groups has."""

    name: str
    families: tuple[str, ...]
    series: tuple[str, ...]
    family_share: float = 0.0
    series_share: float = 0.0
    of_metrics: tuple[float, ...] = ()
    """Share of each metric's variance, where it isn't that of the target."""

    @property
    def models(self) -> int:
        """n."""
        return len(self.families)

    def metric_columns(self, generator: np.random.Generator) -> Floats:
        """What metrics have in common with no other, `[20, n]` of variance 1."""
        if not self.of_metrics:
            return self.columns(generator, METRICS)
        designs = (replace(self, family_share=share, of_metrics=()) for share in self.of_metrics)
        return np.stack([design.columns(generator) for design in designs])

    def columns(self, generator: np.random.Generator, *shape: int) -> Floats:
        """Normal columns `[..., n]` of variance 1."""
        own = 1.0 - self.family_share - self.series_share
        found = math.sqrt(own) * generator.normal(size=(*shape, self.models))
        for labels, share in (
            (self.families, self.family_share),
            (self.series, self.series_share),
        ):
            places = np.unique(labels, return_inverse=True)[1]
            levels = generator.normal(size=(*shape, places.max() + 1))
            found += math.sqrt(share) * levels[..., places]
        return np.asarray(found)


def _alone(families: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"model {place}" for place in range(len(families)))


def _in_series(sizes: tuple[tuple[str, int], ...]) -> dict[str, tuple[str, ...]]:
    return {
        "families": tuple(family for family, count in sizes for _ in range(count)),
        "series": tuple(f"s{i}" for i, (_, count) in enumerate(sizes) for _ in range(count)),
    }


FORTY = tuple(sorted(f"lab {place % 40:02}" for place in range(90)))
DESIGNS = (
    Design("17 models, independent", NO4K, _alone(NO4K)),
    Design("17 models, families share 30%", NO4K, _alone(NO4K), 0.3),
    Design("17 models, families share 50%", NO4K, _alone(NO4K), 0.5),
    Design("23 models in series", family_share=0.2, series_share=0.25, **_in_series(SERIES)),
    Design("90 models, 40 families share 40%", FORTY, _alone(FORTY), 0.4),
)
SEPARATING = Design(
    "17 models, four metrics separate families", NO4K, _alone(NO4K), 0.8,
    of_metrics=(0.0,) * (METRICS - 4) + (0.9,) * 4,
)  # fmt: skip
FEW_SERIES = tuple(
    Design(
        f"{count} series of 3 models",
        series_share=0.45,
        **_in_series(tuple((f"f{i % 2}", 3) for i in range(count))),
    )
    for count in (5, 8, 12)
)
SIGNALS: dict[str, Floats] = {
    "null": np.zeros(METRICS),
    "one .8": np.r_[0.8, np.zeros(METRICS - 1)],
    "one .9": np.r_[0.9, np.zeros(METRICS - 1)],
    "one .95": np.r_[0.95, np.zeros(METRICS - 1)],
    "all .6": np.full(METRICS, 0.6),
    "graded to .9": np.linspace(0.9, 0.0, METRICS),
}


def library(generator: np.random.Generator, design: Design, rho: Floats) -> tuple[Floats, Floats]:
    """`[60, n]` variants and the target; each variant of a metric has its correlation with it."""
    target = design.columns(generator)
    metric = design.metric_columns(generator)[:, None]
    own = np.stack([design.metric_columns(generator) for _ in range(PER_METRIC)], axis=1)
    rest = math.sqrt(WITHIN_METRIC) * metric + math.sqrt(1.0 - WITHIN_METRIC) * own
    variants = rho[:, None, None] * target + np.sqrt(1.0 - rho**2)[:, None, None] * rest
    return variants.reshape(METRICS * PER_METRIC, -1), target


def true_spearman(rho: Floats) -> Floats:
    """Spearman of a bivariate normal law of correlation rho (Pearson 1907)."""
    return np.asarray(6.0 / math.pi * np.arcsin(rho / 2.0))


def select(design: Design, signal: str, studies: int) -> dict[str, Any]:
    """Both answers, the interval of the best, and the adjusted lead over a baseline."""
    rho = np.repeat(SIGNALS[signal], PER_METRIC)
    truth = true_spearman(rho)
    groups = [design.families, design.series]
    baseline = len(rho) - 1  # a metric of 0, or of .6 where all are
    rows: list[tuple[float, ...]] = []
    sets: list[tuple[float, float]] = []
    for study in range(studies):
        generator = np.random.default_rng([study, 11])
        metrics, target = library(generator, design, SIGNALS[signal])
        overall = joint_errors(metrics, target, groups)
        within = joint_errors_within(metrics, target, design.families, design.series)
        above, above_within = overall.p < 0.05, within.p < 0.05
        claims = above | above_within
        best = int(np.argmax(overall.rho))
        critical = overall.critical
        interval = overall.interval(best)
        new = new_family(metrics[best], target, design.families, design.series, critical).interval
        ahead = p_above(overall, baseline) < 0.05
        rows.append(
            (
                bool(claims[rho == 0].any()),
                bool(claims[best] and rho[best] > 0),
                bool(above[best] and rho[best] > 0),
                bool(claims[rho > 0].any()),
                interval.low <= truth[best] <= interval.high,
                interval.high - interval.low,
                bool(ahead[rho <= rho[baseline]].any()),
                bool(ahead[rho > rho[baseline]].any()),
                math.nan if math.isnan(new.low) else new.low <= truth[best] <= new.high,
            )
        )
        if study < SETS:
            near = indistinguishable(overall).reshape(METRICS, PER_METRIC)
            sets.append((float(near[0, 0]), float(near.any(axis=1).sum())))
    found = np.array(rows, dtype=np.float64)
    known = np.isfinite(found)
    mean = np.where(known, found, 0.0).sum(axis=0) / np.where(
        known.any(axis=0), known.sum(axis=0), np.nan
    )
    names = (
        "false_claim", "best_tracks", "best_tracks_over_all_models", "any_good_tracks", "covers",
        "width", "false_lead", "lead_found", "new_family_covers",
    )  # fmt: skip
    record: dict[str, Any] = {"design": design.name, "metrics": signal, "studies": studies}
    record |= {
        name: None if math.isnan(value) else round(float(value), 4)
        for name, value in zip(names, mean, strict=True)
    }
    held, size = np.mean(sets, axis=0).tolist()
    return record | {"sets": len(sets), "best_held": round(held, 4), "set_size": round(size, 2)}


def named_beforehand(design: Design, studies: int) -> dict[str, Any]:
    """Metrics that were named before: power and errors of the permutation test and of the lead."""
    strata = exchangeable_strata(design.families, series := design.series)
    found: dict[str, list[bool]] = {}
    for study in range(NULL_TIMES * studies):
        generator = np.random.default_rng([study, 12])
        target = design.columns(generator)

        def tracking(*rho: float) -> Floats:
            noise = design.columns(generator, len(rho))  # noqa: B023
            size = np.array(rho)[:, None]
            return np.asarray(size * target + np.sqrt(1 - size**2) * noise)  # noqa: B023

        def confirmed(name: str, metrics: Floats) -> None:
            p = directed_test(metrics, target, study, PERMUTATIONS, strata, series)  # noqa: B023
            found.setdefault(name, []).append(bool(p[0] < 0.05))

        confirmed("confirmed_null", tracking(0.0))
        if study >= studies:
            continue
        for name, metrics in (
            ("confirmed_.8", tracking(0.8)),
            ("confirmed_.9", tracking(0.9)),
            ("confirmed_.9_of_5", tracking(0.9, 0.0, 0.0, 0.0, 0.0)),
        ):
            confirmed(name, metrics)
        for name, (one, other) in (
            ("lead_.5_.5", tracking(0.5, 0.5)),
            ("lead_.9_.9", tracking(0.9, 0.9)),
            ("lead_.9_.5", tracking(0.9, 0.5)),
        ):
            p_lead, _ = lead_p(one, other, target, design.families, series)
            found.setdefault(name, []).append(p_lead < 0.05)
    return {
        "design": design.name,
        "studies": studies,
        "null_studies": NULL_TIMES * studies,
        **{name: round(float(np.mean(values)), 4) for name, values in found.items()},
    }


def equal_entries(groups: int, studies: int, entries: int = 6) -> dict[str, Any]:
    """Equal entries of a ranking over groups of tasks: is any pair called distinguishable?"""
    first, second = np.triu_indices(entries, k=1)
    wrong = single = 0
    for study in range(studies):
        scores = np.random.default_rng([study, 13]).normal(size=(entries, groups))
        p = sign_flip_p(scores[first] - scores[second])
        wrong += bool((holm(p) < 0.05).any())
        single += bool(p[0] < 0.05)
    return {
        "groups": groups, "entries": entries, "studies": studies,
        "one_pair": round(single / studies, 4), "any_pair_holm": round(wrong / studies, 4),
    }  # fmt: skip


def results_block(tables: dict[str, Any]) -> str:
    """The tables as `RESULTS.md` shows them, from the JSON alone."""
    lines = [
        f"`{tables['command']}`, {tables['cpu_seconds'] / 60:.0f} min of processor time. Cells are "
        "percentages of studies. The Monte-Carlo standard error of a share p over N studies is "
        "√(p(1 − p)/N): "
        "of 1,000, 0.7 points at 5% and 1.6 at 50%; of 300, 1.3 and 2.9; of 150, 1.8 and 4.1.",
        "",
        "| models | metrics | studies | false claim | best tracks (over all models alone) "
        "| 95% CI covers (width) | truly best is in the set (metrics in it, of 20) "
        "| ahead of a baseline: false, right |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in tables["select"]:
        null = row["metrics"] == "null"
        equal = row["metrics"] in ("null", "all .6")
        cells = [
            row["design"],
            row["metrics"],
            f"{row['studies']:,}",
            "–" if row["metrics"] == "all .6" else f"**{_percent(row['false_claim'])}**",
            "–"
            if null
            else f"**{_percent(row['best_tracks'])}** "
            f"({_percent(row['best_tracks_over_all_models'])})",
            f"{_percent(row['covers'])} ({row['width']:.2f})",
            f"{_percent(row['best_held'])} ({row['set_size']:.1f})",
            f"{_percent(row['false_lead'])}, {'–' if equal else _percent(row['lead_found'])}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Preregistered metrics. *Confirmed* is the result of the one-sided permutation test, which "
        "exchanges series of one family with the same number of models. *Ahead* is the result of "
        "the one-sided test of the difference of z from a baseline at 5%, over all models or "
        "within "
        f"families. The column rho 0 has {NULL_TIMES} times as many studies:",
        "",
        "| models | studies | confirmed: rho 0 | .8 | .9 | .9, one of 5 "
        "preregistered | ahead: .5 and .5 | .9 and .9 | .9 and .5 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    names = (
        "confirmed_null", "confirmed_.8", "confirmed_.9", "confirmed_.9_of_5", "lead_.5_.5",
        "lead_.9_.9", "lead_.9_.5",
    )  # fmt: skip
    for row in tables["named_beforehand"]:
        cells = [_percent(row[name]) for name in names]
        lines.append(f"| {row['design']} | {row['studies']:,} | {' | '.join(cells)} |")
    lines += [
        "",
        "Equal entries of a ranking, compared by the exact sign-flip test over groups of tasks: "
        "percentage of studies in which one given pair is reported as distinguishable, or any of "
        f"the 15 pairs of six entries (Holm); {tables['rank'][0]['studies']:,} studies:",
        "",
        "| groups of tasks | one pair | any pair |",
        "|---:|---:|---:|",
    ]
    for row in tables["rank"]:
        shares = f"{_percent(row['one_pair'])} | {_percent(row['any_pair_holm'])}"
        lines.append(f"| {row['groups']} | {shares} |")
    return marked(BLOCK, lines)


def _signals(design: Design) -> tuple[str, ...]:
    return ("null", "one .9") if design.of_metrics else tuple(SIGNALS)


def _percent(share: float) -> str:
    return f"{100 * share:.1f}".removesuffix(".0")


@click.command()
@click.option("--studies", default=1000, show_default=True, help="Simulated studies a cell.")
@click.option("--large-studies", default=150, show_default=True, help="With 90 models.")
@click.option("--minutes", default=9.0, show_default=True, help="Begin no cell after that.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Save the cells here.")
@click.option("--results", type=click.Path(path_type=Path), help="Put the tables into this page.")
def main(studies: int, large_studies: int, minutes: float, out: Path, results: Path | None) -> None:
    """Simulate the cells that are not saved yet, and save each when it is done."""
    start = time.perf_counter()
    simultaneous.DRAWS = DRAWS
    # the product draws the same numbers for every study of n models
    drawn = simultaneous._standard_normals
    simultaneous._standard_normals = functools.cache(lambda n, draws: list(drawn(n, draws)))
    command = (
        f"python benchmarks/statistics_selection.py --studies {studies} "
        f"--large-studies {large_studies} --out benchmarks/statistics_selection.json"
    )
    tables: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.is_file() else {}
    if tables.get("command") != command:
        tables = {"command": command, "cpu_seconds": 0, "select": [], "named_beforehand": []}
        tables |= {"rank": []}
    tables |= {"revision": code_revision()["revision"], "variants": METRICS * PER_METRIC}

    def count(design: Design) -> int:
        return large_studies if design.models > 50 else studies

    cells: list[tuple[str, tuple[Any, ...], Callable[[], dict[str, Any]]]] = [
        ("select", (d.name, signal), lambda d=d, signal=signal: select(d, signal, count(d)))
        for d in (*DESIGNS, SEPARATING)
        for signal in _signals(d)
    ]
    cells += [
        ("named_beforehand", (d.name,), lambda d=d: named_beforehand(d, count(d)))
        for d in (*DESIGNS, *FEW_SERIES)
    ]
    cells += [
        ("rank", (groups,), lambda groups=groups: equal_entries(groups, 10 * studies))
        for groups in (5, 6, 8, 12)
    ]
    names = {"select": ("design", "metrics"), "named_beforehand": ("design",)}
    order = {(table, *key): place for place, (table, key, _) in enumerate(cells)}

    def place_of(table: str, row: dict[str, Any]) -> int:
        return order[(table, *(row[name] for name in names.get(table, ("groups",))))]

    done = {(table, place_of(table, row)) for table in (*names, "rank") for row in tables[table]}
    # those of 90 models take longest
    for table, key, simulate in sorted(cells, key=lambda cell: "90 models" in str(cell[1][0])):
        if (table, order[(table, *key)]) in done:
            continue
        if time.perf_counter() - start > 60 * minutes:
            click.echo("stopped; run the same command again to go on")
            return
        before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
        tables[table].append(row := simulate())
        tables[table].sort(key=lambda row, table=table: place_of(table, row))
        tables["cpu_seconds"] += resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
        out.write_text(json.dumps(tables, indent=1) + "\n", encoding="utf-8")
        click.echo(f"{time.perf_counter() - start:.0f} s {table}: {row}")
    click.echo("complete")
    if results is not None:
        replace_marked(results, BLOCK, results_block(tables))


if __name__ == "__main__":
    main()
