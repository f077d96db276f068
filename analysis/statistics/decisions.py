"""Which of many metrics track the target: estimate, interval, adjusted p and verdict from one test.

For metric k with Spearman's rho r_k over n models the statistic is

    T_k = z_k / se_k,   z = artanh(r),   se² = D_k · (1 + r_k² / 2) / (n − 3)

(Fisher; Bonett & Wright 2000). D_k is the design effect of the groups of models, the largest over
every grouping given: families, series, developers (`families.design_effects`). A single estimate
from few groups is poor, so D_k is the median over the metrics, or half of the metric's own where
that is more. 'Within families' is the same with the ranks less their family means, and each family
costs one model.

**Null distribution.** The target is replaced by draws that have nothing to do with the metrics, the
metrics stay as they are, and T with its design effects is computed again: max_k T_k of each draw.
No law of large n is used; ties of metrics and target stay. The laws that are drawn from:

* models in random order, as if each stood alone (up to `EXACT_MODELS`, in every order);
* for every grouping, normal columns in which the groups share 50% or 90% of the variance; families
  and series together share 45% each;
* within families also: whole series in random order, among those of as many models in their family.

The p-value is the largest over these laws, and the critical value c the largest of their quantiles:
a claim holds under the finest grouping (each model alone) and the coarsest.

**One decision.** p = 2 · (1 + #{max T* ≥ T_k}) / (draws + 1), and the interval is z ± c·se with the
c that belongs to p < level: it excludes 0 exactly where p is below the level. The best metric's
upper bound is z + 1.96·se, as selection only raises its rho. A metric tracks the target when the
interval over all models or that within families is above 0; each errs in at most half of the
level (5%).

**Too few.** Nothing is claimed where no metric could be: when a metric in perfect agreement with
the target had an adjusted p above the level, or when whole series and families have so few orders
(`families.orders`) that no exact permutation test reaches the level.

What holds in simulation, and what doesn't: benchmarks/inference_simulation.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Literal

import numpy as np

from analysis.statistics.correlations import (
    Flags,
    Floats,
    Indices,
    Interval,
    codes,
    unit_ranks_within,
)
from analysis.statistics.families import (
    MINIMUM_MODELS,
    TWO_SIDED,
    design_effects,
    exchangeable_strata,
    half_swap,
    orders,
    permuted_indices,
)

LEVEL = 0.05
"""Share of studies with a false claim that is accepted."""

DRAWS = 2000
"""Of each law; the p-values have a resolution of 2 / (draws + 1)."""

LEAST_COVERAGE = 0.5
"""Share of the models that a metric must have a value for; else it isn't tested, nor counted."""

EXACT_MODELS = 7
"""Models up to which all orders are drawn, as often each: a p in steps needs no sampling error."""

SHARES = (0.5, 0.9)
"""Of the variance between groups, under which the null distribution is drawn."""

_ROUNDING = 1e-9

Verdict = Literal[
    "tracks", "opposite", "not-distinguishable", "too-few", "missing-models", "constant",
    "constant-target", "uneven-documents",
]  # fmt: skip
"""What is concluded about a metric:

tracks: an interval is above 0. opposite: that over all models is below 0.
not-distinguishable: from 0. too-few: the models can't support a claim about any metric.
missing-models: it tracks among the models it has, and lacks others. constant: the same for every
model; constant-target: the target is. uneven-documents: it tracks, with values from fewer documents
for some models (set by who knows the documents).
"""


@dataclass(frozen=True, eq=False)
class Branch:
    """Correlations of K metrics over all models, or within families.

    rho: `[K]`, NaN where it isn't tested; z, error: `[K]`, Fisher's z and its standard error.
    p: `[K]`, one-sided, adjusted for all K and doubled, as there are two branches.
    critical: c, NaN where nothing is tested.
    attainable: the p that a metric in perfect agreement with the target would have.
    design_effect: the typical D.
    """

    rho: Floats
    z: Floats
    error: Floats
    p: Floats
    critical: float
    attainable: float
    design_effect: float

    @property
    def tested(self) -> Flags:
        """`[K]`, whether a metric has a p."""
        return np.isfinite(self.rho)

    def interval(self, metric: int) -> Interval:
        """95% interval of rho, simultaneous for all K and so valid for a chosen one."""
        if not self.tested[metric]:
            return Interval(math.nan, math.nan, "simultaneous")
        z, error = float(self.z[metric]), float(self.error[metric])
        best = bool(self.rho[metric] >= np.nanmax(self.rho) - 1e-10)
        chosen = best and self.tested.sum() > 1
        upper = min(TWO_SIDED, self.critical) if chosen else self.critical
        low, high = math.tanh(z - self.critical * error), math.tanh(z + upper * error)
        return Interval(low, high, "simultaneous")

    @cached_property
    def least_rho(self) -> float:
        """The rho from which an interval excludes 0, at the smallest standard error found."""
        if math.isnan(self.critical):
            return math.nan
        base = float(((self.error**2) / (1.0 + np.tanh(self.z) ** 2 / 2.0))[self.tested].min())
        rho = 0.5
        for _ in range(50):
            rho = math.tanh(self.critical * math.sqrt(base * (1.0 + rho**2 / 2.0)))
        return rho


@dataclass(frozen=True, eq=False)
class Decisions:
    """What is concluded about K metrics, in the order they were given in.

    overall: over all models; within: of the ranks less their family means.
    complete: `[K]`, whether a metric has a value for every model.
    constant: `[K]`, whether it has one, the same for every model.
    orders: of whole series and families that are equally likely under the null.
    """

    overall: Branch
    within: Branch
    complete: Flags
    constant: Flags
    constant_target: bool
    orders: int
    level: float

    @property
    def tested(self) -> int:
        """Number of metrics with a p."""
        return int(self.overall.tested.sum())

    @property
    def too_few(self) -> bool:
        """Whether the models can't support a claim about any metric."""
        attainable = min(self.overall.attainable, self.within.attainable)
        return not attainable < self.level or 2.0 / self.orders >= self.level

    def evidence(self, metric: int) -> tuple[str, ...]:
        """Which interval is above 0: `all-models`, `within-families`."""
        branches = (("all-models", self.overall), ("within-families", self.within))
        return tuple(name for name, branch in branches if branch.p[metric] < self.level)

    def p(self, metric: int) -> float:
        """The smaller p of the two: below the level where a metric tracks the target."""
        found = [b.p[metric] for b in (self.overall, self.within) if not math.isnan(b.p[metric])]
        return float(min(found, default=math.nan))

    def verdict(self, metric: int) -> Verdict:
        """What is concluded about a metric."""
        if self.constant_target:
            return "constant-target"
        if self.constant[metric]:
            return "constant"
        if self.too_few:
            return "too-few"
        if not self.overall.tested[metric]:
            return "missing-models"
        if self.evidence(metric):
            return "tracks" if self.complete[metric] else "missing-models"
        interval = self.overall.interval(metric)
        return "opposite" if interval.high < 0 else "not-distinguishable"


def decide(
    metrics: Floats,
    target: Floats,
    families: Sequence[Hashable],
    groupings: Sequence[Sequence[Hashable]] = (),
    seed: int = 0,
    level: float = LEVEL,
    draws: int = DRAWS,
) -> Decisions:
    """Decide which of `[K, n]` oriented metrics, NaN where missing, track the `[n]` target.

    Every metric ever tested belongs in `metrics`: intervals and p-values count all of them.

    Args:
        metrics: higher is better.
        target: without missing values.
        families: `[n]` labels.
        groupings: further labels, each `[n]`: series, developers. The first are the series, whose
            members follow each other (doses of a treatment, checkpoints of a run).
        seed: of the draws.
        level: share of studies with a false claim that is accepted.
        draws: of each law.
    """
    draws = max(draws, math.ceil(20.0 / level))
    if target.size <= EXACT_MODELS:
        every_order = math.factorial(target.size)
        draws = every_order * math.ceil(draws / every_order)
    keep = np.isfinite(metrics)
    every = partitions([families, *groupings])
    series = list(zip(families, groupings[0] if groupings else range(target.size), strict=True))
    strata = exchangeable_strata(families, series)
    laws = list(_laws(target, every, draws, seed))
    blocks = target[permuted_indices(draws, seed, strata, series)]
    alone = np.arange(target.size)
    inside = codes(families)
    return Decisions(
        overall=_branch(metrics, target, laws, every, None, level),
        within=_branch(metrics, target, [*laws, blocks], every, inside, level)
        if inside.max(initial=-1) + 1 < alone.size
        else _untested(len(metrics)),
        complete=np.asarray(keep.all(axis=1)),
        constant=np.asarray(keep.all(axis=1) & (metrics == metrics[:, :1]).all(axis=1)),
        constant_target=not target.size or bool(np.ptp(target) == 0),
        orders=orders(families, series),
        level=level,
    )


def _untested(count: int) -> Branch:
    nothing = np.full(count, math.nan)
    return Branch(nothing, nothing, nothing, nothing, math.nan, math.inf, math.nan)


def partitions(groupings: Sequence[Sequence[Hashable]]) -> list[Indices]:
    """Codes of the different ones with more than one group, and a group of several models."""
    found: list[Indices] = []
    for labels in groupings:
        groups = codes(labels)
        several = 1 < groups.max(initial=0) + 1 < groups.size
        if several and not any((groups == other).all() for other in found):
            found.append(groups)
    return found


def _laws(target: Floats, groupings: Sequence[Indices], draws: int, seed: int) -> Iterator[Floats]:
    """Targets `[draws, n]` under each law, with the ties of the actual one."""
    generator = np.random.default_rng([seed, 4])
    ordered = np.sort(target)
    shares = [[0.0] * len(groupings)]
    shares += [[s * (g == of) for g in range(len(groupings))] for of in range(len(groupings))
               for s in SHARES]  # fmt: skip
    if len(groupings) > 1:
        shares.append([0.45, 0.45, *[0.0] * (len(groupings) - 2)])
    if target.size <= EXACT_MODELS:
        every = np.array(list(permutations(target)))
        yield np.tile(every, (draws // len(every), 1))
        shares = shares[1:]
    for law in shares:
        values = math.sqrt(1.0 - sum(law)) * generator.normal(size=(draws, target.size))
        for share, groups in zip(law, groupings, strict=True):
            if share:
                levels = generator.normal(size=(draws, int(groups.max()) + 1))
                values += math.sqrt(share) * levels[:, groups]
        yield ordered[values.argsort(axis=1).argsort(axis=1)]


def _branch(
    metrics: Floats,
    target: Floats,
    laws: Sequence[Floats],
    groupings: Sequence[Indices],
    families: Indices | None,
    level: float,
) -> Branch:
    """One branch; `families` are subtracted where they are given."""
    count = len(metrics)
    rho, z, error = (np.full(count, math.nan) for _ in range(3))
    statistic, effects = np.full(count, -math.inf), np.ones(count)
    draws = len(laws[0])
    largest = np.full((len(laws), draws), -math.inf)
    perfect = -math.inf
    for part in comparable_parts(metrics, target, groupings, families):
        rows, x = part.rows, part.x
        here = statistics(x, part.y, part.groups, part.freedom)
        rho[rows], z[rows], error[rows] = here.rho[:, 0], here.z[:, 0], here.error[:, 0]
        statistic[rows], effects[rows] = here.statistic[:, 0], here.effect[:, 0]
        for law, drawn in enumerate(laws):
            y = unit_ranks_within(drawn[:, part.mask], part.families)
            null = statistics(x, y, part.groups, part.freedom).statistic
            largest[law] = np.fmax(largest[law], null.max(axis=0))  # NaN: a constant target
        most = half_swap(1.0, x.shape[1])
        spread = float(here.effect.min()) * (1.0 + most**2 / 2.0) / (part.freedom - 3.0)
        perfect = max(perfect, math.atanh(most) / math.sqrt(spread))
    if math.isinf(perfect):
        return _untested(count)
    largest.sort(axis=1)

    def adjusted(values: Floats) -> Floats:
        reaching = [draws - np.searchsorted(law, values - _ROUNDING) for law in largest]
        most: Floats = np.max(reaching, axis=0)
        return np.minimum(2.0 * (1.0 + most) / (draws + 1.0), 1.0)

    tested = np.isfinite(rho)
    # p < level exactly where fewer than `allowed` draws reach T, that is, where T exceeds c
    allowed = max(math.ceil(level * (draws + 1.0) / 2.0) - 1, 1)
    return Branch(
        rho=rho,
        z=z,
        error=error,
        p=np.where(tested, adjusted(statistic), math.nan),
        critical=float(largest[:, draws - allowed].max()) + _ROUNDING,
        attainable=float(adjusted(np.array([perfect]))[0]),
        design_effect=float(np.median(effects[tested])),
    )


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
        own = None if families is None else codes(families[mask].tolist())
        freedom = size if own is None else size - int(own.max(initial=-1))
        if size < LEAST_COVERAGE * target.size or freedom < MINIMUM_MODELS:
            continue
        rows = np.flatnonzero(mask_of.ravel() == number)
        x, y = (unit_ranks_within(part[:, mask], own) for part in (metrics[rows], target[None]))
        varied = np.isfinite(x[:, 0])
        if varied.any() and np.isfinite(y).all():
            groups = [codes(labels[mask].tolist()) for labels in groupings]
            yield Part(rows[varied], mask, x[varied], y, groups, own, freedom)


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
        own = design_effects(x, y, groups)
        effect = np.maximum(effect, np.maximum(own / 2.0, np.median(own, axis=0)))
    z = np.arctanh(bounded)
    error = np.sqrt(effect * ((1.0 + bounded**2 / 2.0) / (freedom - 3.0)))
    return Statistics(rho, z, error, effect, z / error)
