"""Skipped Spearman: Spearman on the points that an outlier filter keeps.

Two different statistics share the word. The locked problem asks for the first:

* `mcd_skipped`: drop points whose squared robust Mahalanobis distance (`MinCovDet`) is above the
  0.975 quantile of chi-squared with 2 degrees of freedom. Its flags depend on a seed;
  `exact_skipped` is reported as well and shows whether the seed missed the optimum.
* `projection_skipped` (Wilcox; Pernet, Wilcox & Rousselet 2013): drop points that are far
  out on any of the lines through the robust centre and a point.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2

from analysis.statistics.correlations import Flags, Floats, spearman_rows
from analysis.statistics.fast_mcd import (
    McdFlags,
    exact_mcd_flags,
    half_coincides,
    mcd_flags,
    robust_standardise,
)

CUTOFF = 0.975

MOST_POINTS = 500
"""Beyond, scikit-learn splits the data first, and `fast_mcd` doesn't: undefined."""

_COINCIDE = "half of the points or more coincide"


@dataclass(frozen=True)
class Skipped:
    """A skipped correlation. `keep` is `[n]`; `value` is NaN where undefined."""

    value: float
    keep: Flags
    note: str

    @property
    def kept(self) -> int:
        """Number of points that the filter kept."""
        return int(self.keep.sum())


@dataclass(frozen=True)
class FlagStability:
    """Variation of the MCD flags with the random state.

    seeds: their number.
    drop_share: `[n]`, share of the seeds under which each point is dropped.
    agreement: share of the seeds that drop exactly the same points as the chosen seed.
    value_low, value_high: range of the skipped Spearman over the seeds.
    """

    seeds: int
    drop_share: Floats
    agreement: float
    value_low: float
    value_high: float


def mcd_skipped(x: Floats, y: Floats, seed: int) -> Skipped:
    """Spearman of `[n]` columns after the MCD filter.

    The flags are those of `MinCovDet(random_state=seed)` of scikit-learn 1.8 and later, computed
    by `fast_mcd`: earlier releases scale distances differently and flag other points in
    a quarter of data sets, and an official number must not depend on what is installed.
    """
    if x.size > MOST_POINTS:
        return _undefined(x.size, f"more than {MOST_POINTS} points")
    return _by_flags(x, y, mcd_flags(x[None, :], y[None, :], seed, CUTOFF))


def mcd_skipped_rows(x: Floats, y: Floats, seed: int) -> Floats:
    """`mcd_skipped` for each row of `[rows, points]` arrays, vectorised; NaN where undefined."""
    if x.shape[1] > MOST_POINTS:
        return np.full(len(x), math.nan)
    flags = mcd_flags(x, y, seed, CUTOFF)
    values = spearman_rows(x, y, flags.keep)
    values[flags.undefined] = np.nan
    return values


def exact_skipped(x: Floats, y: Floats) -> Skipped | None:
    """`mcd_skipped` with the best of all halves instead of the best a seed finds.

    The one value that no seed can better or worsen; None with more than 20 points.
    """
    flags = exact_mcd_flags(x, y, CUTOFF)
    return None if flags is None else _by_flags(x, y, flags)


def flag_stability(x: Floats, y: Floats, seed: int, seeds: int = 200) -> FlagStability:
    """Repeat the MCD filter over random states 0 … seeds − 1 and compare with `seed`'s flags."""
    if x.size > MOST_POINTS:  # undefined under every seed, as in `mcd_skipped`
        return FlagStability(seeds, np.zeros(x.size), 1.0, math.nan, math.nan)
    chosen = mcd_flags(x[None, :], y[None, :], seed, CUTOFF).keep[0]
    many_x, many_y = (np.broadcast_to(column, (seeds, x.size)) for column in (x, y))
    flags = mcd_flags(many_x, many_y, range(seeds), CUTOFF)
    values = spearman_rows(many_x, many_y, flags.keep)
    defined = values[~np.isnan(values)]
    return FlagStability(
        seeds=seeds,
        drop_share=1.0 - flags.keep.mean(axis=0),
        agreement=float((flags.keep == chosen).all(axis=1).mean()),
        value_low=float(defined.min()) if defined.size else math.nan,
        value_high=float(defined.max()) if defined.size else math.nan,
    )


def projection_skipped(x: Floats, y: Floats, seed: int) -> Skipped:
    """Spearman of `[n]` columns after the projection filter (Wilcox's skipped correlation).

    For each point i, all points are projected on the line through the MCD centre and i;
    on each line, a distance above median + sqrt(chi2(0.975, 2)) × (ideal fourths spread)
    marks an outlier. Projections depend on the units of the columns, so both are
    standardised first. The centre is that of the installed scikit-learn.
    """
    from sklearn.covariance import MinCovDet

    if half_coincides(x[None, :], y[None, :])[0]:
        return _undefined(x.size, _COINCIDE)
    points = np.column_stack([robust_standardise(x), robust_standardise(y)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        centre = MinCovDet(random_state=seed).fit(points).location_
    away = points - centre
    lengths = np.linalg.norm(away, axis=1)
    lines = away[lengths > 0] / lengths[lengths > 0, None]
    distances = np.abs(lines @ away.T)
    fence = math.sqrt(chi2.ppf(CUTOFF, 2)) * _ideal_fourths_spread(distances)
    threshold = np.median(distances, axis=1) + fence
    keep = ~(distances > threshold[:, None]).any(axis=0)
    return _spearman_of_kept(x, y, keep, "")


def _by_flags(x: Floats, y: Floats, flags: McdFlags) -> Skipped:
    """The first data set of the flags."""
    if flags.undefined[0]:
        return _undefined(x.size, _COINCIDE)
    note = "half of the points or more lie on one line" if flags.singular[0] else ""
    return _spearman_of_kept(x, y, flags.keep[0], note)


def _spearman_of_kept(x: Floats, y: Floats, keep: Flags, note: str) -> Skipped:
    value = float(spearman_rows(x[None, :], y[None, :], keep[None, :])[0])
    if math.isnan(value):
        note = "undefined: the kept points are too few or constant"
    return Skipped(value, keep, note)


def _undefined(points: int, why: str) -> Skipped:
    return Skipped(math.nan, np.ones(points, dtype=np.bool_), f"undefined: {why}")


def _ideal_fourths_spread(values: Floats) -> Floats:
    """Upper minus lower ideal fourth of each row (Frigge, Hoaglin & Iglewicz 1989)."""
    count = values.shape[1]
    position = count / 4 + 5 / 12
    whole = int(position)
    part = position - whole
    ordered = np.sort(values, axis=1)
    low = (1 - part) * ordered[:, whole - 1] + part * ordered[:, whole]
    high = (1 - part) * ordered[:, count - whole] + part * ordered[:, count - whole - 1]
    return np.asarray(high - low)
