"""Pairs of entries over few groups of tasks: exact sign-flip tests, adjusted by Holm.

Under the null hypothesis that two entries are equally good, their difference in a group of tasks
is as likely to have either sign, independently between groups. The test compares the sum of the
differences with those of all 2^G patterns of signs (Fisher 1935; Pitman 1937): it is exact with any
number of groups, while a bootstrap over five groups calls 16% of equal pairs different at a nominal
5%. The smallest two-sided p is 2 / 2^G, so that fewer than six groups can show nothing.

Holm (1979) adjusts for the number of pairs: the i-th smallest of m p-values is multiplied by
m − i + 1, and no later one is smaller.
"""

from __future__ import annotations

import numpy as np

from analysis.statistics.correlations import Floats

MINIMUM_GROUPS = 6
MOST_EXACT = 18
"""Groups of which all patterns are counted; beyond, so many random ones."""

_DIGITS = 10


def sign_flip_p(differences: Floats, seed: int = 0) -> Floats:
    """Two-sided p-values that the sum of differences over groups is 0.

    Args:
        differences: `[pairs, groups]`.
        seed: of random patterns, drawn with more than `MOST_EXACT` groups only.

    Returns:
        `[pairs]`; NaN with fewer than `MINIMUM_GROUPS`.
    """
    pairs, groups = differences.shape
    if groups < MINIMUM_GROUPS:
        return np.full(pairs, np.nan)
    if groups <= MOST_EXACT:
        # the pattern with all signs turned has the same absolute sum: half of them are enough
        numbers = np.arange(2 ** (groups - 1))
        signs = 1.0 - 2.0 * ((numbers[:, None] >> np.arange(groups)) & 1)
    else:
        drawn = np.random.default_rng(seed).choice([-1.0, 1.0], size=(2**MOST_EXACT - 1, groups))
        signs = np.vstack([np.ones((1, groups)), drawn])
    observed = np.round(np.abs(differences.sum(axis=1)), _DIGITS)
    result = np.empty(pairs)
    for row, difference in enumerate(differences):
        sums = np.round(np.abs(signs @ difference), _DIGITS)
        result[row] = (sums >= observed[row]).mean()
    return result


def holm(p: Floats) -> Floats:
    """`[m]` p-values adjusted for their number; NaN stays NaN and isn't counted."""
    result = np.full(p.shape, np.nan)
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = np.arange(order.size, 0, -1)
    result[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return result
