"""Comparisons among many metrics: which may be the best, which are ahead of a baseline.

Directions are declared, so the best metric is the one with the largest *signed* rho. Whether a
metric tracks the target at all is decided in `decisions`. Comparisons rest on one approximation:
the errors of Fisher's z of K dependent correlations are jointly normal with mean 0, standard errors

    se_k = √(design effect · (1 + r_k² / 2) / (n_k − 3))            (Bonett & Wright 2000)

and the correlation matrix C of two correlations that share a variable (Olkin & Siotani 1976;
Olkin & Finn 1995). With r the correlations with the target and p_jk the partial correlation of two
metrics given the target, C is

    C_jk = r_j r_k (1 + p_jk²) / 2 + √(1 − r_j²) √(1 − r_k²) p_jk,

which is positive semidefinite for any r. r is shrunk to tanh(0.85 z) in C, since large
correlations among many are too large.

* 'Not distinguishable from the best': metric j is left out when the largest of
  (z_k − z_j) / se(z_k − z_j) over k exceeds the 95% quantile of the same maximum of normal errors.
  The truly best metric stays in the set in at least 95% of studies.

* 'Ahead of a baseline' makes no use of that law, which errs where correlations are large or models
  are far out. Each series s is left out in turn, which changes the difference d = r_k − r_b by u_s
  (jackknife, Tukey 1958). These parts get random signs, the same for all metrics (a wild bootstrap,
  Wu 1986), and d / √Σu², divided by the root of the design effect, must exceed the largest of the
  sums Σ±u / √Σu². Callers claim a lead only for a metric that tracks the target.

Assumptions: monotone relations whose ranks behave as those of a normal law, and groups of models
whose likeness `families.design_effects` describes. Simulated in benchmarks/inference_simulation.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from analysis.statistics.correlations import Flags, Floats, Indices, codes
from analysis.statistics.monte_carlo import MOST_DRAWS, stages, undecided
from analysis.statistics.parts import comparable_parts, partitions, statistics

LEVEL = 0.95
SHRINKAGE = 0.85
DRAWS = 10_000
SET_DRAWS = 2000
_DRAWS_AT_ONCE = 1000
_SMALL = 1e-9

LEAST_SERIES = 6
"""From which a metric can lead: fewer have too few patterns of signs."""


@dataclass(frozen=True, eq=False)
class JointErrors:
    """Correlations of K metrics with the target, and how their errors depend on each other.

    rho: `[K]` Spearman, NaN where undefined or untested.
    z: `[K]` Fisher's z; error: `[K]` its standard error, widened by the design effect.
    factors: `[K, d]` rows of unit length whose products are C, d the number of different rankings;
        zero where untested.
    x, y: `[K, n]` unit ranks of the metrics, and of the target among the models of each.
    """

    rho: Floats
    z: Floats
    error: Floats
    factors: Floats
    x: Floats
    y: Floats


def joint_errors(
    metrics: Floats, target: Floats, groupings: Sequence[Sequence[Hashable]]
) -> JointErrors:
    """Correlations over all models, and the dependence of their errors.

    Args:
        metrics: `[K, n]`, oriented, NaN where a model has no value.
        target: `[n]`.
        groupings: labels of the models, each `[n]`: families, series, developers. The one that
            costs most sets the design effect.
    """
    rho, z, error = (np.full(len(metrics), math.nan) for _ in range(3))
    x, y = np.zeros(metrics.shape), np.zeros(metrics.shape)
    for part in comparable_parts(metrics, target, partitions(groupings)):
        here = statistics(part.x, part.y, part.groups, part.freedom)
        rho[part.rows], z[part.rows] = here.rho[:, 0], here.z[:, 0]
        error[part.rows] = here.error[:, 0]
        kept = np.ix_(part.rows, np.flatnonzero(part.mask))
        x[kept], y[kept] = part.x, part.y
    factors = _factors(x, y, np.nan_to_num(rho), np.nan_to_num(z))
    factors[~np.isfinite(rho)] = 0.0
    return JointErrors(rho, z, error, factors, x, y)


def indistinguishable(errors: JointErrors) -> Flags:
    """`[K]`, whether a metric is not distinguishable from the best one; all K are tested."""
    count = errors.z.size
    scaled = errors.factors * errors.error[:, None]
    statistic, spread = _paired(errors.z, scaled)
    largest = statistic.max(axis=1, initial=0.0)
    surely_in = NormalDist().inv_cdf(LEVEL)
    surely_out = NormalDist().inv_cdf(1.0 - (1.0 - LEVEL) / max(count - 1, 1))
    inside = largest <= surely_in
    open_rows = np.flatnonzero(~inside & (largest <= surely_out))
    for draws in stages(SET_DRAWS):
        if not open_rows.size:
            break
        drawn = np.hstack(list(_normals(scaled, draws))).astype(np.float32)
        hits = np.array(
            [_reaching(drawn, row, spread[row], largest[row]) for row in open_rows.tolist()]
        )
        inside[open_rows] = hits > (1.0 - LEVEL) * draws
        near_limit = undecided(hits, draws, 1.0 - LEVEL)
        open_rows, last = open_rows[near_limit], open_rows[near_limit]
    else:
        inside[last] = True  # nothing is excluded by the seed
    return np.asarray(inside)


def _reaching(drawn: npt.NDArray[np.float32], row: int, spread: Floats, largest: float) -> int:
    """Number of draws in which another metric is ahead of `row` by `largest` errors or more."""
    known = spread > _SMALL
    differences = (drawn[known] - drawn[row]) / spread[known, None].astype(np.float32)
    return int((differences.max(axis=0) >= largest).sum())


def ahead_of(
    errors: JointErrors,
    other: int,
    series: Sequence[Hashable],
    draws: int = DRAWS,
    most_draws: int = MOST_DRAWS,
) -> tuple[Floats, Flags]:
    """Which metrics have a larger rho than `other`: one-sided p adjusted for all, and whether.

    Args:
        errors: of complete metrics.
        other: the baseline.
        series: `[n]` labels of models that follow each other.
        draws: of the signs, at first.
        most_draws: up to which they are added while it depends on them.

    Returns:
        `[K]` p (see the head of this module), and whether it is below 5% in more than these draws.
    """
    rho = np.nan_to_num(errors.rho)
    parts = _parts_by_series(errors, other, codes(series))
    size = np.linalg.norm(parts, axis=1)
    known = size > _SMALL
    if not known.any() or parts.shape[1] < LEAST_SERIES:
        return np.ones(rho.size), np.zeros(rho.size, dtype=np.bool_)
    scaled = parts[known] / size[known, None]
    gap = ((rho - rho[other]) / _widening(errors, other))[known] / size[known]
    for total in stages(draws, most_draws):
        hits = np.full(rho.size, float(total))
        hits[known] = _at_least(_largest_by_signs(scaled, total), gap)
        uncertain = undecided(hits, total, 1.0 - LEVEL)
        if not uncertain.any():
            break
    p = (1.0 + hits) / (total + 1.0)
    return p, (p < 1.0 - LEVEL) & ~uncertain


def _parts_by_series(errors: JointErrors, other: int, series: Indices) -> Floats:
    """`[K, series]` the u of the head of this module."""
    x, y, rho = errors.x, errors.y, np.nan_to_num(errors.rho)
    member = (series[:, None] == np.arange(series.max() + 1)).astype(np.float64)
    kept = series.size - member.sum(axis=0)
    sum_x, sum_y = -x @ member, -y @ member
    square_x = 1.0 - x**2 @ member - sum_x**2 / kept
    square_y = 1.0 - y**2 @ member - sum_y**2 / kept
    product = rho[:, None] - (x * y) @ member - sum_x * sum_y / kept
    change = rho[:, None] - product / np.sqrt(np.maximum(square_x * square_y, _SMALL))
    return np.asarray(change - change[other])


def _widening(errors: JointErrors, other: int) -> Floats:
    """`[K]` root of the design effect, the larger of the metric's and the other's."""
    alone = (1.0 + np.tanh(errors.z) ** 2 / 2.0) / (errors.x.shape[1] - 3.0)
    effect = np.nan_to_num(errors.error**2 / alone, nan=1.0)
    return np.asarray(np.sqrt(np.maximum(effect, effect[other])))


def _largest_by_signs(parts: Floats, draws: int) -> Floats:
    """`[draws]` the largest sum of the parts of a metric with random signs of the series."""
    generator = np.random.default_rng(1)
    largest = []
    for first in range(0, draws, _DRAWS_AT_ONCE):
        shape = (parts.shape[1], min(_DRAWS_AT_ONCE, draws - first))
        signs = 2.0 * generator.integers(0, 2, shape) - 1.0
        largest.append((parts @ signs).max(axis=0))
    return np.concatenate(largest)


def _at_least(maxima: Floats, statistics: Floats) -> Floats:
    """How many of the maxima reach each statistic."""
    ordered = np.sort(maxima)
    return np.asarray(ordered.size - np.searchsorted(ordered, statistics - _SMALL), dtype=float)


def _paired(z: Floats, scaled: Floats) -> tuple[Floats, Floats]:
    """(z_k − z_j) / se and se of the difference, `[K, K]`; 0 for two with equal rankings."""
    lengths = (scaled**2).sum(axis=1)
    variance = lengths[None, :] + lengths[:, None] - 2.0 * scaled @ scaled.T
    spread = np.sqrt(np.where(variance > _SMALL * lengths[:, None], variance, 0.0))
    gap = z[None, :] - z[:, None]
    return np.where(spread > 0, gap / np.where(spread > 0, spread, 1.0), 0.0), spread


def _factors(x: Floats, y: Floats, rho: Floats, z: Floats) -> Floats:
    """Rows whose products are C: those of its symmetric root, in an order that only ranks decide.

    Equal rankings have one row, so that copies of a metric cost nothing.
    """
    rest = x - rho[:, None] * y
    length = np.linalg.norm(rest, axis=1, keepdims=True)
    rest = rest / np.where(length > _SMALL, length, np.inf)
    shrunk = np.tanh(SHRINKAGE * z)
    _, first, place = np.unique(np.round(x, 12), axis=0, return_index=True, return_inverse=True)
    rest, shrunk = rest[first], shrunk[first]
    partial, rest_scale = rest @ rest.T, np.sqrt(1.0 - shrunk**2)
    covariance = np.outer(shrunk, shrunk) * (1.0 + partial**2) / 2.0
    covariance += np.outer(rest_scale, rest_scale) * partial
    sizes, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(sizes, 0.0))) @ vectors.T
    length = np.linalg.norm(root, axis=1, keepdims=True)
    return np.asarray(root / np.where(length > _SMALL, length, 1.0))[place.ravel()]


def _normals(factors: Floats, draws: int) -> Iterator[Floats]:
    """Normal columns `[K, draws]` with covariance factors · factorsᵀ, in parts; always the same."""
    for part in _standard_normals(factors.shape[1], draws):
        yield factors @ part


def _standard_normals(rows: int, draws: int) -> Iterable[Floats]:
    generator = np.random.default_rng(0)
    for first in range(0, draws, _DRAWS_AT_ONCE):
        yield generator.standard_normal((rows, min(_DRAWS_AT_ONCE, draws - first)))
