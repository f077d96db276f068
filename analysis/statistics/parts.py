"""Metrics with values for the same models, and their statistic T: see `decisions`."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.correlations import Flags, Floats, Indices, codes, unit_ranks_within
from analysis.statistics.families import MINIMUM_MODELS, design_effects, half_swap

LEAST_COVERAGE = 0.5
"""Share of the models that a metric must have a value for; else it isn't tested, nor counted."""


@dataclass(frozen=True, eq=False)
class Part:
    """Metrics that have values for the same models: what is needed to correlate them.

    rows: of the metrics; mask: `[n]`, the models they have.
    x, y: unit ranks of the metrics and of the target, `[rows, kept]` and `[1, kept]`.
    groups: codes of each grouping; families: those that were subtracted, if any.
    freedom: number of models, less one for each family but the first that was subtracted.
    """

    rows: Indices
    mask: Flags
    x: Floats
    y: Floats
    groups: list[Indices]
    families: Indices | None
    freedom: int


def comparable_parts(
    metrics: Floats,
    target: Floats,
    groupings: Sequence[Indices],
    families: Indices | None = None,
) -> Iterator[Part]:
    """The parts of `[K, n]` metrics that have enough models to be tested; others are left out."""
    keep = np.isfinite(metrics)
    masks, mask_of = np.unique(keep, axis=0, return_inverse=True)
    for number, mask in enumerate(masks):
        size = int(mask.sum())
        inside = None if families is None else codes(families[mask].tolist())
        freedom = size if inside is None else size - int(inside.max(initial=-1))
        if size < LEAST_COVERAGE * target.size or freedom < MINIMUM_MODELS:
            continue
        rows = np.flatnonzero(mask_of.ravel() == number)
        x, y = (unit_ranks_within(part[:, mask], inside) for part in (metrics[rows], target[None]))
        varied = np.isfinite(x[:, 0])
        if varied.any() and np.isfinite(y).all():
            groups = [codes(labels[mask].tolist()) for labels in groupings]
            yield Part(rows[varied], mask, x[varied], y, groups, inside, freedom)


@dataclass(frozen=True, eq=False)
class Statistics:
    """T and what it is made of, `[K, draws]` each."""

    rho: Floats
    z: Floats
    error: Floats
    effect: Floats
    statistic: Floats


def statistics(x: Floats, y: Floats, groupings: Sequence[Indices], freedom: int) -> Statistics:
    """T and what it is made of, from unit ranks `[K, n]` and `[draws, n]`."""
    rho = np.clip(x @ y.T, -1.0, 1.0)
    most = half_swap(1.0, x.shape[1])
    bounded = np.clip(rho, -most, most)
    effect = np.ones(rho.shape)
    for groups in groupings:
        effects = design_effects(x, y, groups)
        effect = np.maximum(effect, np.maximum(effects / 2.0, np.median(effects, axis=0)))
    z = np.arctanh(bounded)
    error = np.sqrt(effect * ((1.0 + bounded**2 / 2.0) / (freedom - 3.0)))
    return Statistics(rho, z, error, effect, z / error)


def partitions(groupings: Sequence[Sequence[Hashable]]) -> list[Indices]:
    """Codes of the different ones with more than one group, and a group of several models."""
    distinct: list[Indices] = []
    for labels in groupings:
        groups = codes(labels)
        several = 1 < groups.max(initial=0) + 1 < groups.size
        if several and not any((groups == other).all() for other in distinct):
            distinct.append(groups)
    return distinct
