"""A metric against a baseline on the same models: is its correlation really higher?

Both correlations share the target and the models, so they are dependent. The interval of the
difference is a paired bootstrap; the test swaps metric and baseline family by family, which is
exact when the two are exchangeable given the target, and takes the maximum over all variants
to pay for looking at many. Models of a family go together in both: they resemble each other, and
swapped one by one they would count as that many pieces of evidence.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.bootstrap import Draws, Estimate, Interval, bootstrap_estimate
from analysis.statistics.correlations import Floats, masked_ranks, spearman_rows
from analysis.statistics.winner import MINIMUM_GROUPS

DEFAULT_SWAPS = 10_000


@dataclass(frozen=True)
class SwapTest:
    """One-sided p-values that K variants beat the baseline.

    difference: `[K]` Spearman of the variant minus that of the baseline.
    p_single: `[K]` on its own; p_adjusted: `[K]` against the best of all K; both NaN with fewer
        than `MINIMUM_GROUPS`.
    """

    difference: Floats
    p_single: Floats
    p_adjusted: Floats


def difference(
    metric: Floats,
    baseline: Floats,
    target: Floats,
    draws: Draws,
    clusters: Sequence[str] | None = None,
) -> Estimate:
    """Spearman of a metric minus Spearman of the baseline, both `[n]` and oriented.

    Args:
        metric: whose lead is asked for.
        baseline: on the same models.
        target: `[n]`.
        draws: the resamples.
        clusters: what they drew as wholes.

    Returns:
        With fewer than `MINIMUM_GROUPS`, NaN bounds.
    """

    def statistic(rows: Floats, targets: Floats) -> Floats:
        points = rows.astype(np.intp)
        return _difference_rows(metric[points], baseline[points], targets)

    index = np.arange(target.size, dtype=np.float64)
    value = float(_difference_rows(metric[None], baseline[None], target[None])[0])
    if clusters is not None and len(set(clusters)) < MINIMUM_GROUPS:
        unknown = Interval(math.nan, math.nan, 0.95, "too few clusters", 0, 0)
        return Estimate(value, unknown, unknown)
    return bootstrap_estimate(value, statistic, index, target, draws, clusters)


def swap_test(
    metrics: Floats,
    baseline: Floats,
    target: Floats,
    seed: int,
    swaps: int = DEFAULT_SWAPS,
    clusters: Sequence[Hashable] | None = None,
) -> SwapTest:
    """Do the variants beat the baseline beyond chance?

    Swapping the metric ranks of a cluster with its baseline ranks flips the sign of its share of
    the difference; the sum with random signs is the null distribution. It is left in units of rho,
    so that a variant that hardly differs from the baseline doesn't set the yardstick.

    Args:
        metrics: `[K, n]`, oriented, complete.
        baseline: `[n]`, oriented, complete.
        target: `[n]`.
        seed: of the swaps.
        swaps: how many random sign patterns.
        clusters: of each model, the family it is swapped with; None: each its own. With four there
            is no pattern of signs as rare as 5%.
    """
    ranks = _ranks(np.vstack([baseline[None], metrics, target[None]]))
    shares = (ranks[1:-1] - ranks[0]) * (ranks[-1] - ranks[-1].mean())
    differs = (shares != 0).any(axis=1)
    observed = shares.sum(axis=1)
    generator = np.random.default_rng(seed)
    labels = range(target.size) if clusters is None else clusters
    known: dict[Hashable, int] = {}
    codes = [known.setdefault(label, len(known)) for label in labels]
    signs = generator.choice(np.array([-1.0, 1.0]), size=(swaps, len(known)))[:, codes]
    null = shares @ signs.T
    largest = null.max(axis=0)
    reached = observed[:, None] - 1e-9
    p_single = (1 + (null >= reached).sum(axis=1)) / (swaps + 1)
    p_adjusted = (1 + (largest[None, :] >= reached).sum(axis=1)) / (swaps + 1)
    enough = len(known) >= MINIMUM_GROUPS
    return SwapTest(
        difference=_difference_rows(
            metrics,
            np.broadcast_to(baseline, metrics.shape),
            np.broadcast_to(target, metrics.shape),
        ),
        p_single=np.where(differs, p_single, 1.0) if enough else np.full(len(metrics), np.nan),
        p_adjusted=np.where(differs, p_adjusted, 1.0) if enough else np.full(len(metrics), np.nan),
    )


def _difference_rows(metric: Floats, baseline: Floats, target: Floats) -> Floats:
    return np.asarray(spearman_rows(metric, target) - spearman_rows(baseline, target))


def _ranks(values: Floats) -> Floats:
    return masked_ranks(values, np.ones(values.shape, dtype=np.bool_))
