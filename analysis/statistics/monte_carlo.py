"""How many random draws a verdict needs, so that another seed gives the same one.

A verdict compares a share of draws with a limit: a p-value with a level, or the share of resamples
in which one entry is above another with 2.5%. The share of finitely many draws is an estimate of
the share of all. A verdict stands when the Clopper-Pearson interval of the share excludes the
limit; otherwise more draws are made:

    for draws in stages(first, most):
        shares = ...  # of this many draws
        if not undecided(hits, draws, limit).any():
            break

What is still undecided then has the verdict `undecided`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.stats import beta

from analysis.statistics.correlations import Flags, Floats

MOST_DRAWS = 50_000
"""Up to which draws are added."""

CONFIDENCE = 0.99
"""Of the interval of one share; a share that is outside by less is decided with more draws."""

_FACTOR = 5


def stages(first: int, most: int = MOST_DRAWS) -> Iterator[int]:
    """Numbers of draws to try one after the other: each 5 times the one before, `most` last."""
    draws = min(first, most)
    while draws < most:
        yield draws
        draws = min(_FACTOR * draws, most)
    yield most


def undecided(hits: npt.ArrayLike, draws: npt.ArrayLike, limit: float) -> Flags:
    """Whether the Monte Carlo interval of each share contains the limit, elementwise.

    Args:
        hits: number of draws in which it happened; a tie may count half.
        draws: how many there were.
        limit: that the share is compared with, between 0 and 1.
    """
    low, high = share_interval(hits, draws)
    return np.asarray((low <= limit) & (limit <= high))


def share_interval(hits: npt.ArrayLike, draws: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Clopper-Pearson interval at `CONFIDENCE` of the share of all draws, elementwise."""
    reached, total = np.asarray(hits, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    tail = (1.0 - CONFIDENCE) / 2.0
    with np.errstate(invalid="ignore"):
        low = np.where(reached > 0, beta.ppf(tail, reached, total - reached + 1.0), 0.0)
        high = np.where(reached < total, beta.ppf(1.0 - tail, reached + 1.0, total - reached), 1.0)
    return low, high
