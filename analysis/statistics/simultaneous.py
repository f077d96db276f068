"""Simultaneous inference for the Spearman correlations of many metrics with one target.

Directions are declared, so the best metric is the one with the largest *signed* rho. All claims
rest on one approximation: the errors of Fisher's z of K dependent correlations are jointly normal
with mean 0, standard errors

    se_k = √(design effect · (1 + r_k² / 2) / (n_k − 3))            (Bonett & Wright 2000)

and the correlation matrix C of two correlations that share a variable (Olkin & Siotani 1976;
Olkin & Finn 1995). With r the correlations with the target and p_jk the partial correlation of two
metrics given the target, C is

    C_jk = r_j r_k (1 + p_jk²) / 2 + √(1 − r_j²) √(1 − r_k²) p_jk,

the same matrix written as a covariance: it is that of

    g_k = r_k (T − W_k) / √2 + √(1 − r_k²) V_k,

T standard normal, V normal with correlations p_jk, W normal with p_jk². This form needs no
eigenvalues, is positive semidefinite for any r, and gives the same draws in any order of the
metrics. r is shrunk to tanh(0.85 z) in C, since large correlations among many are too large.

* Intervals: the lower bound of each metric is z − c·se with c the 97.5% quantile of max_k N(0, C).
  The bound of the chosen metric is too high only if the largest of K errors exceeds c. Its upper
  bound is z + 1.96·se: the largest estimate is at least that of the truly best metric. Other
  metrics pay c on both sides.
* 'Tracks the target': the lower bound is above 0.
* 'Not distinguishable from the best': metric j is left out when the largest of
  (z_k − z_j) / se(z_k − z_j) over k exceeds the 95% quantile of the same maximum of normal errors.
  The truly best metric stays in the set in at least 95% of studies.

Assumptions: monotone relations whose ranks behave as those of a normal law, and groups of models
whose likeness `families.design_effect` describes. Simulated in benchmarks/statistics_selection.py,
with designs that satisfy both and with families, series and 17 models.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np

from analysis.statistics.correlations import Flags, Floats, Indices, Interval, codes, unit_ranks
from analysis.statistics.families import MINIMUM_MODELS, TWO_SIDED, design_effects, half_swap

LEVEL = 0.95
CLAIM_LEVEL = 0.05
"""A metric tracks the target with an adjusted p below it, that is, a 95% interval above 0."""

SHRINKAGE = 0.85
DRAWS = 10_000
SET_DRAWS = 2000
LEAST_COVERAGE = 0.5
"""Share of the models that a metric must have a value for; else it has no p and isn't counted."""

_DRAWS_AT_ONCE = 1000
_SMALL = 1e-9


@dataclass(frozen=True, eq=False)
class JointErrors:
    """Correlations of K metrics with the target, and how their errors depend on each other.

    rho: `[K]` Spearman (pooled within families where asked for), NaN where undefined or untested.
    z: `[K]` Fisher's z; error: `[K]` its standard error, widened by the design effect.
    factors: `[K, d]` rows of unit length whose products are C; zero where untested.
    design_effect: by which variances are typically larger than with independent models.
    """

    rho: Floats
    z: Floats
    error: Floats
    factors: Floats
    design_effect: float

    @property
    def tested(self) -> Flags:
        """`[K]`, whether a metric has a correlation that counts."""
        return np.isfinite(self.rho)

    @cached_property
    def maxima(self) -> Floats:
        """`[DRAWS]` draws of max N(0, C) over the tested metrics, ascending."""
        factors = self.factors[self.tested]
        return np.sort(np.concatenate([part.max(axis=0) for part in _normals(factors, DRAWS)]))

    @cached_property
    def critical(self) -> float:
        """The 97.5% quantile of max_k N(0, C), NaN where nothing is tested."""
        return (
            float(np.quantile(self.maxima, (1.0 + LEVEL) / 2.0)) if self.tested.any() else math.nan
        )

    @cached_property
    def p(self) -> Floats:
        """`[K]` p-values that rho is above 0, adjusted for all K; NaN where untested.

        2 P(max N(0, C) ≥ z / se), at most 1: below 5% exactly where the lower bound of the interval
        excludes 0.
        """
        result = np.full(self.rho.shape, np.nan)
        tested = self.tested
        if tested.any():
            statistic = self.z[tested] / self.error[tested]
            reaching = self.maxima.size - np.searchsorted(self.maxima, statistic)
            result[tested] = np.minimum(2.0 * (1 + reaching) / (self.maxima.size + 1), 1.0)
        return result

    @cached_property
    def single_p(self) -> Floats:
        """`[K]` two-sided p-values of each metric as if it were the only one."""
        normal = NormalDist()
        with np.errstate(invalid="ignore"):
            statistic = np.abs(self.z / self.error)
        return np.array([2.0 * normal.cdf(-t) if math.isfinite(t) else math.nan for t in statistic])

    @cached_property
    def least_rho(self) -> float:
        """The rho from which a metric of all models has an interval that excludes 0."""
        if math.isnan(self.critical):
            return math.nan
        # se depends on rho: what is left of its square is the design effect over the freedom
        effects = self.error**2 / (1.0 + np.tanh(self.z) ** 2 / 2.0)
        base = float(effects[self.tested].min())
        rho = 0.5
        for _ in range(50):
            rho = math.tanh(self.critical * math.sqrt(base * (1.0 + rho**2 / 2.0)))
        return rho

    def interval(self, metric: int) -> Interval:
        """95% interval for rho, valid although the metric was chosen; NaN if untested."""
        if not self.tested[metric]:
            return Interval(math.nan, math.nan, "after choice")
        z, error = float(self.z[metric]), float(self.error[metric])
        best = bool(self.rho[metric] >= np.nanmax(self.rho) - 1e-10)
        low = math.tanh(z - self.critical * error)
        high = math.tanh(z + (TWO_SIDED if best else self.critical) * error)
        return Interval(low, high, "after choice")


@dataclass(frozen=True, eq=False)
class Inference:
    """Correlations of all K metrics tested, in the order they were given in.

    A metric tracks the target when its interval excludes 0 over all models or within families.
    Each of the two errs in at most 2.5% of studies, both together in at most 5%.

    overall: over all models; within: of the differences inside families, where families have
        several models.
    """

    overall: JointErrors
    within: JointErrors

    @property
    def tested(self) -> int:
        """Number of metrics tested that have a p."""
        return int(self.overall.tested.sum())

    def evidence(self, row: int) -> tuple[str, ...]:
        """Where a metric's interval excludes 0; empty if it doesn't track the target."""
        found = (("over all models", self.overall), ("within families", self.within))
        return tuple(where for where, errors in found if errors.p[row] < CLAIM_LEVEL)


def infer(
    metrics: Floats, target: Floats, families: Sequence[Hashable], series: Sequence[Hashable]
) -> Inference:
    """Correlate `[K, n]` oriented metrics, NaN where missing, with the `[n]` target.

    Every metric ever tested belongs in `metrics`: all intervals and p-values count them.
    """
    overall = joint_errors(metrics, target, [families, series])
    return Inference(overall, joint_errors_within(metrics, target, families, series))


def joint_errors(
    metrics: Floats, target: Floats, groupings: Sequence[Sequence[Hashable]]
) -> JointErrors:
    """Correlations over all models.

    Args:
        metrics: `[K, n]`, oriented, NaN where a model has no value.
        target: `[n]`.
        groupings: labels of the models, each `[n]`: families, series. The one that costs most
            sets the design effect.
    """
    keep = np.isfinite(metrics)
    x = unit_ranks(np.where(keep, metrics, 0.0), keep)
    y = unit_ranks(np.broadcast_to(target, metrics.shape), keep)
    freedom = keep.sum(axis=1).astype(np.float64)
    return _joint(x, y, keep, freedom, groupings)


def joint_errors_within(
    metrics: Floats, target: Floats, families: Sequence[Hashable], series: Sequence[Hashable]
) -> JointErrors:
    """Correlations of the ranks less their family means: the relation inside families.

    Whatever families share, in metric and target, drops out. Each family costs one model.

    Args:
        metrics: `[K, n]`, oriented, NaN where a model has no value.
        target: `[n]`.
        families: `[n]`; series: `[n]`, each within one family, as `groupings` of `joint_errors`.
    """
    keep = np.isfinite(metrics)
    places = codes(families)
    member = (np.arange(places.max(initial=-1) + 1)[:, None] == places).astype(np.float64)
    x, y = (
        _without_means(unit_ranks(column, keep), keep, member, places)
        for column in (np.where(keep, metrics, 0.0), np.broadcast_to(target, metrics.shape))
    )
    present = (keep.astype(np.float64) @ member.T > 0).sum(axis=1)
    return _joint(x, y, keep, keep.sum(axis=1) - present + 1.0, [series])


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


def difference_of_z(errors: JointErrors, one: int, other: int) -> tuple[float, float]:
    """z of one metric minus that of another, and its standard error.

    The error is 0 if both rankings are equal; both are NaN where one isn't tested.
    """
    if not (errors.tested[one] and errors.tested[other]):
        return math.nan, math.nan
    rows = np.array([other, one])
    scaled = errors.factors[rows] * errors.error[rows, None]
    _, spread = _paired(errors.z[rows], scaled, np.array([0]))
    return float(errors.z[one] - errors.z[other]), float(spread[0, 1])


def _paired(z: Floats, scaled: Floats, rows: Indices | None = None) -> tuple[Floats, Floats]:
    """(z_k − z_j) / se and se of the difference, `[rows, K]`; 0 for two with equal rankings."""
    own = np.arange(z.size) if rows is None else rows
    lengths = (scaled**2).sum(axis=1)
    variance = lengths[None, :] + lengths[own, None] - 2.0 * scaled[own] @ scaled.T
    spread = np.sqrt(np.where(variance > _SMALL * lengths[own, None], variance, 0.0))
    gap = z[None, :] - z[own, None]
    return np.where(spread > 0, gap / np.where(spread > 0, spread, 1.0), 0.0), spread


def _joint(
    x: Floats, y: Floats, keep: Flags, freedom: Floats, groupings: Sequence[Sequence[Hashable]]
) -> JointErrors:
    """From centred ranks of unit length, `[K, n]`; `freedom` is n where nothing was removed."""
    covered = keep.sum(axis=1) >= LEAST_COVERAGE * keep.shape[1]
    rho = np.where(covered & (freedom >= MINIMUM_MODELS), (x * y).sum(axis=1), np.nan)
    most = np.array(
        [half_swap(1.0, int(count)) if count > 1 else 0.0 for count in keep.sum(axis=1)]
    )
    rho = np.clip(rho, -1.0, 1.0)
    bounded = np.clip(rho, -most, most)
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.arctanh(bounded)
        variance = (1.0 + bounded**2 / 2.0) / np.maximum(freedom - 3.0, 1.0)
    effects, typical = _design_effects(x, y, keep, np.isfinite(rho), groupings)
    factors = _factors(np.nan_to_num(x), np.nan_to_num(y), np.nan_to_num(rho), np.nan_to_num(z))
    factors[~np.isfinite(rho)] = 0.0
    return JointErrors(rho, z, np.sqrt(effects * variance), factors, typical)


def _factors(x: Floats, y: Floats, rho: Floats, z: Floats) -> Floats:
    """Rows whose products are C; see the head of this module."""
    rest = x - rho[:, None] * y
    length = np.linalg.norm(rest, axis=1, keepdims=True)
    rest = rest / np.where(length > _SMALL, length, np.inf)
    shrunk = np.tanh(SHRINKAGE * z)
    first, second = np.triu_indices(x.shape[1])
    twice = np.where(first == second, 1.0, math.sqrt(2.0))
    weight = shrunk[:, None] / math.sqrt(2.0)
    own = np.sqrt(1.0 - shrunk**2)[:, None] * rest
    pairs = -weight * rest[:, first] * rest[:, second] * twice
    rows = np.hstack([weight, own, pairs])
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > _SMALL, length, 1.0))


def _design_effects(
    x: Floats, y: Floats, keep: Flags, tested: Flags, groupings: Sequence[Sequence[Hashable]]
) -> tuple[Floats, float]:
    """`[K]` design effects and the typical one; of several groupings the one that costs most.

    A single estimate from few groups is poor, and that of the best metric was chosen along with
    it: by chance alone it is twice the typical one. So each metric has the median over the
    complete metrics, or half of its own where that is more: a metric that separates families, among
    others that don't, pays for it.
    """
    effects, typical = np.ones(len(x)), 1.0
    masks, mask_of = np.unique(keep, axis=0, return_inverse=True)
    for labels in groupings:
        groups = codes(labels)
        if groups.max(initial=-1) + 1 == groups.size:
            continue
        own = np.ones(len(x))
        for number, present in enumerate(masks):
            rows = np.flatnonzero((mask_of == number) & tested)
            if rows.size:
                here = codes(groups[present].tolist())
                own[rows] = design_effects(x[rows][:, present], y[rows[0], present], here)
        whole = keep.all(axis=1) & tested
        median = float(np.median(own[whole])) if whole.any() else 1.0
        typical = max(typical, median)
        effects = np.maximum(effects, np.maximum(own / 2.0, median))
    return effects, typical


def _normals(factors: Floats, draws: int) -> Iterator[Floats]:
    """Normal columns `[K, draws]` with covariance factors · factorsᵀ, in parts; always the same."""
    for part in _standard_normals(factors.shape[1], draws):
        yield factors @ part


def _standard_normals(rows: int, draws: int) -> Iterable[Floats]:
    generator = np.random.default_rng(0)
    for first in range(0, draws, _DRAWS_AT_ONCE):
        yield generator.standard_normal((rows, min(_DRAWS_AT_ONCE, draws - first)))


def _without_means(ranks: Floats, keep: Flags, member: Floats, places: Indices) -> Floats:
    """Rows less the means of their families, at unit length; NaN where nothing is left."""
    counts = np.maximum(keep.astype(np.float64) @ member.T, 1.0)
    means = (np.nan_to_num(ranks) @ member.T / counts)[:, places]
    rest = np.where(keep, ranks - means, 0.0)
    length = np.linalg.norm(rest, axis=1, keepdims=True)
    return np.asarray(rest / np.where(length > _SMALL, length, np.nan))
