"""Sensitivity analysis of a claim: labels that join too few models, and models that carry it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from analysis.ranking.metric_table import MetricColumn, MetricTable
from analysis.statistics.correlations import Floats, codes, spearman, spearman_rows
from analysis.statistics.decisions import DRAWS, Decisions, decide
from analysis.statistics.unlabelled import unlabelled_clusters

MOST_LEFT_OUT = 3
_MOST_SETS = 10_000


@dataclass(frozen=True)
class Joined:
    """Models that behave as one series in the metrics although no label joins them.

    clusters: full ids of each.
    decisions: with each cluster as one series of one family.
    """

    clusters: tuple[tuple[str, ...], ...]
    decisions: Decisions


@dataclass(frozen=True)
class Carried:
    """The fewest models, three at most, without which a metric doesn't track the target.

    models: their full ids.
    rho: without them.
    """

    models: tuple[str, ...]
    rho: float


def joined_series(table: MetricTable, complete: Sequence[MetricColumn], seed: int) -> Joined | None:
    """What would be decided with unlabelled series joined; None where there are none.

    Args:
        table: of the problem.
        complete: columns with a value for every model, of which each metric's first is used.
        seed: of the rotations and of the draws.
    """
    first = list({column.metric: column.oriented for column in reversed(complete)}.values())
    if not first:
        return None
    labels = _joined_by_labels(table)
    clusters = unlabelled_clusters(np.stack(first), labels, seed)
    if not clusters:
        return None
    families, series = list(table.families), list(table.series_across_families)
    for number, cluster in enumerate(clusters):
        for place in cluster:
            families[place] = series[place] = f"unlabelled {number}"
    metrics = np.stack([column.oriented for column in table.everything])
    return Joined(
        clusters=tuple(tuple(table.models[place].full_id for place in each) for each in clusters),
        decisions=decide(
            metrics, table.target, families, [series, table.developers], seed, most_draws=DRAWS
        ),
    )


def _joined_by_labels(table: MetricTable) -> list[int]:
    """A number for each model, the same for those that share a family or a developer."""
    group = codes(table.families)
    developers = codes(table.developers)
    for developer in range(int(developers.max()) + 1):
        members = developers == developer
        group[np.isin(group, group[members])] = group[members].min()
    return [int(number) for number in group]


def carried_by(
    table: MetricTable, column: MetricColumn, decisions: Decisions, seed: int
) -> Carried | None:
    """The models that carry a claim; None where it survives leaving out any three.

    Of sets of one, two and three models, that whose removal lowers rho most is left out.
    """
    place = next(i for i, each in enumerate(table.everything) if each is column)
    metrics = np.stack([each.oriented for each in table.everything])
    left_out: tuple[int, ...] = ()
    for size in range(1, MOST_LEFT_OUT + 1):
        left_out = _most_lowering(column.oriented, table.target, size, left_out)
        kept = np.setdiff1d(np.arange(table.target.size), left_out)
        without = decide(
            metrics[:, kept],
            table.target[kept],
            [table.families[i] for i in kept],
            [[labels[i] for i in kept] for labels in table.groupings],
            seed,
            decisions.level,
            most_draws=DRAWS,
        )
        if not without.evidence(place):
            rho = spearman(column.oriented[kept], table.target[kept])
            return Carried(tuple(table.models[i].full_id for i in left_out), rho)
    return None


def _most_lowering(x: Floats, y: Floats, size: int, before: tuple[int, ...]) -> tuple[int, ...]:
    """The `size` models without which rho is smallest; of very many sets, `before` and one more."""
    if comb(x.size, size) <= _MOST_SETS:
        sets = list(combinations(range(x.size), size))
    else:
        sets = [(*before, i) for i in range(x.size) if i not in before]
    keep = np.ones((len(sets), x.size), dtype=np.bool_)
    keep[np.arange(len(sets))[:, None], np.array(sets)] = False
    rho = spearman_rows(np.broadcast_to(x, keep.shape), np.broadcast_to(y, keep.shape), keep)
    return sets[int(np.argmin(np.round(np.nan_to_num(rho, nan=1.0), 10)))]
