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
* models with their own distance from the middle rank and a random sign: models that are far out in
  target and metrics stay far out, above or below (for more than `EXACT_MODELS`);
* for every grouping, normal columns in which the groups share 50% or 90% of the variance; families
  and series together share 45% each;
* within families also: whole series in random order, among those of as many models in their family.

The p-value is the largest over these laws, and the critical value c the largest of their quantiles:
a claim holds under the finest grouping (each model alone) and the coarsest.

**One decision.** p = 2 · (1 + #{max T* ≥ T_k}) / (draws + 1), and the interval is z ± c·se with the
c that belongs to p < level: it excludes 0 exactly where p is below the level. The best metric's
upper bound is z + 1.96·se, as selection only raises its rho. A metric tracks the target when the
interval over all models or that within families is above 0; each errs in at most half of the
level (5%). Draws are added until no verdict depends on the seed (`monte_carlo`).

**Too few.** Nothing is claimed where no metric could be: when a metric in perfect agreement with
the target had an adjusted p above the level, or when whole series and families have so few orders
(`families.orders`) that no exact permutation test reaches the level.

What holds in simulation, and what doesn't: benchmarks/inference_simulation.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import permutations
from typing import Literal

import numpy as np
from scipy.stats import rankdata

from analysis.statistics.correlations import (
    Flags,
    Floats,
    Indices,
    Interval,
    codes,
    unit_ranks_within,
)
from analysis.statistics.families import (
    TWO_SIDED,
    exchangeable_strata,
    half_swap,
    orders,
    permuted_indices,
)
from analysis.statistics.monte_carlo import MOST_DRAWS, stages, undecided
from analysis.statistics.parts import Part, Statistics, comparable_parts, partitions, statistics

LEVEL = 0.05
"""Share of studies with a false claim that is accepted."""

DRAWS = 2000
"""Of each law at first; the p-values have a resolution of 2 / (draws + 1)."""


EXACT_MODELS = 7
"""Models up to which all orders are drawn, as often each: a p in steps needs no sampling error."""

SHARES = (0.5, 0.9)
"""Of the variance between groups, under which the null distribution is drawn."""

_ROUNDING = 1e-9

Verdict = Literal[
    "tracks", "opposite", "not-distinguishable", "undecided", "too-few", "missing-models",
    "constant", "constant-target", "uneven-documents",
]  # fmt: skip
"""What is concluded about a metric:

tracks: an interval is above 0. opposite: that over all models is below 0.
not-distinguishable: from 0. undecided: it hangs on the draws, see `monte_carlo`. too-few: the
models can't support a claim about any metric. missing-models: it tracks among the models it has,
and lacks others. constant: the same for every model; constant-target: the target is.
uneven-documents: it tracks, with values from fewer documents for some models (set by who knows the
documents).
"""


@dataclass(frozen=True, eq=False)
class Branch:
    """Correlations of K metrics over all models, or within families.

    rho: `[K]`, NaN where it isn't tested; z, error: `[K]`, Fisher's z and its standard error.
    p: `[K]`, one-sided, adjusted for all K and doubled, as there are two branches.
    critical: c, NaN where nothing is tested.
    attainable: the p that a metric in perfect agreement with the target would have.
    design_effect: the typical D.
    undecided: `[K]`, whether p, or that of the opposite sign, is too near to the level for these
        draws.
    """

    rho: Floats
    z: Floats
    error: Floats
    p: Floats
    critical: float
    attainable: float
    design_effect: float
    undecided: Flags

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
    draws: of each law.
    """

    overall: Branch
    within: Branch
    complete: Flags
    constant: Flags
    constant_target: bool
    orders: int
    level: float
    draws: int

    @property
    def tested(self) -> int:
        """Number of metrics with a p."""
        return int(self.overall.tested.sum())

    @property
    def too_few(self) -> bool:
        """Whether the models can't support a claim about any metric."""
        attainable = min(self.overall.attainable, self.within.attainable)
        return not attainable < self.level or self.orders <= 2.0 / self.level

    def evidence(self, metric: int) -> tuple[str, ...]:
        """Which interval is above 0: `all-models`, `within-families`."""
        branches = (("all-models", self.overall), ("within-families", self.within))
        return tuple(name for name, branch in branches if branch.p[metric] < self.level)

    def is_decided(self, metric: int) -> bool:
        """Whether more draws wouldn't change the verdict."""
        branches = (self.overall, self.within)
        certain = any(b.p[metric] < self.level and not b.undecided[metric] for b in branches)
        return certain or not any(b.undecided[metric] for b in branches)

    def p(self, metric: int) -> float:
        """The smaller p of the two: below the level where a metric tracks the target."""
        defined = [b.p[metric] for b in (self.overall, self.within) if not math.isnan(b.p[metric])]
        return float(min(defined, default=math.nan))

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
            if not self.complete[metric]:
                return "missing-models"
            return "tracks" if self.is_decided(metric) else "undecided"
        if not self.is_decided(metric):
            return "undecided"
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
    most_draws: int = MOST_DRAWS,
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
        draws: of each law, at first.
        most_draws: up to which they are added while a verdict depends on them.
    """
    draws = max(draws, math.ceil(20.0 / level))
    if target.size <= EXACT_MODELS:
        every_order = math.factorial(target.size)
        draws = every_order * math.ceil(draws / every_order)
    keep = np.isfinite(metrics)
    every = partitions([families, *groupings])
    series = list(zip(families, groupings[0] if groupings else range(target.size), strict=True))
    strata = exchangeable_strata(families, series)
    inside = codes(families)
    several = inside.max(initial=-1) + 1 < target.size
    observed = [_observed(metrics, target, every, None)]
    observed.append(_observed(metrics if several else metrics[:0], target, every, inside))
    maxima: list[list[Floats]] = [[], []]
    for total in stages(draws, max(draws, most_draws)):
        for part in range(len(maxima[0]), math.ceil(total / draws)):
            laws = list(_laws(target, every, draws, seed, part))
            orders_of = permuted_indices(draws, [seed, part] if part else seed, strata, series)
            maxima[0].append(_largest(observed[0], laws))
            maxima[1].append(_largest(observed[1], [*laws, target[orders_of]]))
        overall, within = (
            _branch(one, np.concatenate(drawn, axis=1), len(metrics), level)
            for one, drawn in zip(observed, maxima, strict=True)
        )
        decisions = Decisions(
            overall=overall,
            within=within,
            complete=np.asarray(keep.all(axis=1)),
            constant=np.asarray(keep.all(axis=1) & (metrics == metrics[:, :1]).all(axis=1)),
            constant_target=not target.size or bool(np.ptp(target) == 0),
            orders=orders(families, series),
            level=level,
            draws=draws * len(maxima[0]),
        )
        if decisions.too_few or all(map(decisions.is_decided, range(len(metrics)))):
            break
    return decisions


def _laws(
    target: Floats, groupings: Sequence[Indices], draws: int, seed: int, part: int
) -> Iterator[Floats]:
    """Targets `[draws, n]` under each law, those of random order with the ties of the actual one.

    Each `part` has draws of its own.
    """
    generator = np.random.default_rng([seed, 4, part] if part else [seed, 4])
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
    if target.size <= EXACT_MODELS:  # 2^n signs are too few
        return
    ranks = rankdata(target)
    signs = generator.choice([-1.0, 1.0], size=(draws, target.size))
    yield signs * (ranks - (target.size + 1.0) / 2.0)


@dataclass(frozen=True, eq=False)
class _Observed:
    """What was measured of the tested metrics, in the order of `rows`, and of which parts.

    perfect: T that a metric in perfect agreement with the target would have.
    """

    parts: list[Part]
    rows: Indices
    statistics: Statistics
    perfect: float


def _observed(
    metrics: Floats, target: Floats, groupings: Sequence[Indices], families: Indices | None
) -> _Observed:
    """The statistics of one branch; `families` are subtracted where they are given."""
    parts = list(comparable_parts(metrics, target, groupings, families))
    of_part = [statistics(part.x, part.y, part.groups, part.freedom) for part in parts]
    perfect = -math.inf
    for part, here in zip(parts, of_part, strict=True):
        most = half_swap(1.0, part.x.shape[1])
        spread = float(here.effect.min()) * (1.0 + most**2 / 2.0) / (part.freedom - 3.0)
        perfect = max(perfect, math.atanh(most) / math.sqrt(spread))
    columns = [
        np.concatenate([np.empty(0), *(getattr(here, field.name)[:, 0] for here in of_part)])
        for field in fields(Statistics)
    ]
    rows = np.concatenate([np.empty(0, dtype=np.intp), *(part.rows for part in parts)])
    return _Observed(parts, rows, Statistics(*columns), perfect)


def _largest(observed: _Observed, laws: Sequence[Floats]) -> Floats:
    """`[laws, draws]` the largest T of all metrics, of each draw."""
    largest = np.full((len(laws), len(laws[0])), -math.inf)
    for part in observed.parts:
        for law, drawn in enumerate(laws):
            y = unit_ranks_within(drawn[:, part.mask], part.families)
            null = statistics(part.x, y, part.groups, part.freedom).statistic
            largest[law] = np.fmax(largest[law], null.max(axis=0))  # NaN: a constant target
    return largest


def _untested(count: int) -> Branch:
    nothing = np.full(count, math.nan)
    none = np.zeros(count, dtype=np.bool_)
    return Branch(nothing, nothing, nothing, nothing, math.nan, math.inf, math.nan, none)


def _branch(observed: _Observed, largest: Floats, count: int, level: float) -> Branch:
    """One branch from what was observed and the `[laws, draws]` maxima of the draws."""
    if not observed.rows.size:
        return _untested(count)
    largest = np.sort(largest, axis=1)
    draws = largest.shape[1]

    def reaching(values: Floats) -> Floats:
        of_laws = [draws - np.searchsorted(law, values - _ROUNDING) for law in largest]
        return np.asarray(np.max(of_laws, axis=0), dtype=np.float64)

    def adjusted(values: Floats) -> Floats:
        return np.asarray(np.minimum(2.0 * (1.0 + reaching(values)) / (draws + 1.0), 1.0))

    def in_place(values: Floats) -> Floats:
        column = np.full(count, math.nan)
        column[observed.rows] = values
        return column

    here = observed.statistics
    uncertain = np.zeros(count, dtype=np.bool_)
    uncertain[observed.rows] = undecided(reaching(np.abs(here.statistic)), draws, level / 2.0)
    # p < level exactly where fewer than `allowed` draws reach T, that is, where T exceeds c
    allowed = max(math.ceil(level * (draws + 1.0) / 2.0) - 1, 1)
    return Branch(
        rho=in_place(here.rho),
        z=in_place(here.z),
        error=in_place(here.error),
        p=in_place(adjusted(here.statistic)),
        critical=float(largest[:, draws - allowed].max()) + _ROUNDING,
        attainable=float(adjusted(np.array([observed.perfect]))[0]),
        design_effect=float(np.median(here.effect)),
        undecided=uncertain,
    )
