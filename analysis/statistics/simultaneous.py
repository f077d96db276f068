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

Assumptions: monotone relations whose ranks behave as those of a normal law, and groups of models
whose likeness `families.design_effects` describes. Simulated in benchmarks/inference_simulation.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analysis.statistics.correlations import Flags, Floats, Indices
from analysis.statistics.decisions import comparable_parts, partitions, statistics

LEVEL = 0.95
SHRINKAGE = 0.85
DRAWS = 10_000
SET_DRAWS = 2000
_DRAWS_AT_ONCE = 1000
_SMALL = 1e-9


@dataclass(frozen=True, eq=False)
class JointErrors:
    """Correlations of K metrics with the target, and how their errors depend on each other.

    rho: `[K]` Spearman, NaN where undefined or untested.
    z: `[K]` Fisher's z; error: `[K]` its standard error, widened by the design effect.
    factors: `[K, d]` rows of unit length whose products are C, d the number of different rankings;
        zero where untested.
    """

    rho: Floats
    z: Floats
    error: Floats
    factors: Floats


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
    return JointErrors(rho, z, error, factors)


def indistinguishable(errors: JointErrors) -> Flags:
    """`[K]`, whether a metric is not distinguishable from the best one; all K are tested."""
    count = errors.z.size
    scaled = errors.factors * errors.error[:, None]
    statistic, spread = _paired(errors.z, scaled)
    largest = statistic.max(axis=1, initial=0.0)
    surely_in = NormalDist().inv_cdf(LEVEL)
    surely_out = NormalDist().inv_cdf(1.0 - (1.0 - LEVEL) / max(count - 1, 1))
    inside = largest <= surely_in
    between = np.flatnonzero(~inside & (largest <= surely_out))
    if between.size:
        drawn = np.hstack(list(_normals(scaled, SET_DRAWS))).astype(np.float32)
        for row in between:
            known = spread[row] > _SMALL
            differences = (drawn[known] - drawn[row]) / spread[row, known, None].astype(np.float32)
            inside[row] = largest[row] <= np.quantile(differences.max(axis=0), LEVEL)
    return np.asarray(inside)


def p_above(errors: JointErrors, other: int) -> Floats:
    """`[K]` one-sided p-values that a metric has a larger rho than `other`, adjusted for all K."""
    scaled = errors.factors * errors.error[:, None]
    statistic, spread = _paired(errors.z, scaled, np.array([other]))
    known = spread[0] > _SMALL
    result = np.ones(errors.z.size)
    if known.any():
        difference = (scaled[known] - scaled[other]) / spread[0, known, None]
        maxima = np.sort(np.concatenate([part.max(axis=0) for part in _normals(difference, DRAWS)]))
        reaching = maxima.size - np.searchsorted(maxima, statistic[0, known])
        result[known] = (1 + reaching) / (maxima.size + 1)
    return result


def _paired(z: Floats, scaled: Floats, rows: Indices | None = None) -> tuple[Floats, Floats]:
    """(z_k − z_j) / se and se of the difference, `[rows, K]`; 0 for two with equal rankings."""
    own = np.arange(z.size) if rows is None else rows
    lengths = (scaled**2).sum(axis=1)
    variance = lengths[None, :] + lengths[own, None] - 2.0 * scaled[own] @ scaled.T
    spread = np.sqrt(np.where(variance > _SMALL * lengths[own, None], variance, 0.0))
    gap = z[None, :] - z[own, None]
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
    partial, own = rest @ rest.T, np.sqrt(1.0 - shrunk**2)
    covariance = np.outer(shrunk, shrunk) * (1.0 + partial**2) / 2.0
    covariance += np.outer(own, own) * partial
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
