"""Pairs of entries: exact sign tests over items, and sign-flip tests over few groups of tasks.

Under the null hypothesis that two entries are equally good, their difference in a group of tasks
is as likely to have either sign, independently between groups. The test compares the sum of the
differences with those of all 2^G patterns of signs (Fisher 1935; Pitman 1937): it is exact with any
number of groups, while a bootstrap over five groups calls 16% of equal pairs different at a nominal
5%. The smallest two-sided p is 2 / 2^G, so that a few groups can show nothing: see `least_groups`.

Holm (1979) adjusts for the number of pairs: the i-th smallest of m p-values is multiplied by
m − i + 1, and no later one is smaller.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc
from scipy.stats import binom

from analysis.statistics.correlations import Floats
from analysis.statistics.paired import exact_sign_flip_p

Integers = NDArray[np.integer[Any]]

LEVEL = 0.05
MOST_EXACT = 18
"""Groups of which all patterns are counted; beyond, the sum is taken as normally distributed."""


def sign_flip_p(differences: Floats) -> Floats:
    """Two-sided p-values that the sum of differences over groups is 0.

    Args:
        differences: `[pairs, groups]`.

    Returns:
        `[pairs]`; NaN without groups, and where a difference is missing.
    """
    pairs, groups = differences.shape
    if groups == 0:
        return np.full(pairs, np.nan)
    if groups <= MOST_EXACT:
        return np.array([exact_sign_flip_p(difference) for difference in differences])
    missing = np.isnan(differences).any(axis=1)
    spread = np.sqrt(2 * (differences**2).sum(axis=1))
    sums = np.abs(differences.sum(axis=1))
    p = erfc(np.divide(sums, spread, out=np.zeros(pairs), where=spread > 0))
    return np.where(missing, math.nan, p)


def sign_test_p(wins: Integers, losses: Integers) -> Floats:
    """Two-sided p-values of the exact sign test; 1 where nothing was won or lost.

    Args:
        wins: `[pairs]`, units in which the first entry is better.
        losses: `[pairs]`, units in which the second is.
    """
    less = np.minimum(wins, losses)
    p: Floats = np.minimum(2 * binom.cdf(less, wins + losses, 0.5), 1.0)
    return p


def least_groups(pairs: int) -> int:
    """Groups from which a pair can be distinguished: 2 / 2^G, times the pairs, is below `LEVEL`."""
    return math.floor(math.log2(2 * max(pairs, 1) / LEVEL)) + 1


def holm(p: Floats) -> Floats:
    """`[m]` p-values adjusted for their number; NaN stays NaN and isn't counted."""
    result = np.full(p.shape, np.nan)
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = np.arange(order.size, 0, -1)
    result[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return result
