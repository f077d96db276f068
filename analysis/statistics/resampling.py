"""Resampling of models and documents: bootstrap intervals, and splits that estimate a choice.

Intervals of models resampled one by one are scipy's (percentile; BCa, Efron 1987). A statistic
takes `[rows, points]` columns and returns `[rows]` values, NaN where undefined; resamples with an
undefined statistic are left out and counted.

`choice_procedure` chooses the best of many metrics on a part of the models and scores it on the
others, whole groups at once: a family or developer on both sides would tell the choice about the
test. The mean describes the procedure of choosing, not one metric; inference on metrics is in
`analysis.statistics.decisions`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.stats

from analysis.statistics.correlations import (
    Flags,
    Floats,
    Interval,
    codes,
    number,
    spearman,
    spearman_rows,
)
from analysis.statistics.skipped import Skipped, mcd_skipped, mcd_skipped_rows

Statistic = Callable[[Floats, Floats], Floats]

DEFAULT_RESAMPLES = 10_000
DEFAULT_SPLITS = 500
LEAST_DRAWN = 8
"""Models, series or documents from which a bootstrap interval exists: of fewer, resamples repeat
the same few values, and the interval is too short."""

MINIMUM_TRAINING = 5
MINIMUM_TEST = 4
TEST_SHARE = 1 / 3

_ROWS_AT_ONCE = 4096
_DIGITS = 10
"""Correlations equal to this many digits are equal: the rest is rounding of the processor."""


@dataclass(frozen=True)
class Estimate:
    """A statistic with its percentile and BCa intervals at 95%."""

    value: float
    percentile: Interval
    bca: Interval


def spearman_estimate(
    x: Floats, y: Floats, seed: int, resamples: int = DEFAULT_RESAMPLES
) -> Estimate:
    """Spearman's rho of `[n]` columns with its intervals."""
    return bootstrap(spearman(x, y), spearman_rows, x, y, seed, resamples)


def skipped_estimate(
    x: Floats, y: Floats, seed: int, resamples: int = DEFAULT_RESAMPLES
) -> tuple[Estimate, Skipped]:
    """The MCD-filtered Spearman of the locked problem, and the points it keeps.

    All intervals of a seed use the same resamples; the filter is refitted in every one.
    """

    def skipped_rows(x: Floats, y: Floats) -> Floats:
        return mcd_skipped_rows(x, y, seed)

    estimate = mcd_skipped(x, y, seed)
    return bootstrap(estimate.value, skipped_rows, x, y, seed, resamples), estimate


def bootstrap(
    value: float, statistic: Statistic, x: Floats, y: Floats, seed: int, resamples: int
) -> Estimate:
    """scipy's percentile and BCa intervals at 95% of a statistic of `[n]` columns.

    Bounds are NaN where the value is undefined or there are fewer than `LEAST_DRAWN` points, and
    those of BCa where a jackknife value is undefined.
    """
    if x.size < LEAST_DRAWN:
        none = Interval(math.nan, math.nan, f"fewer than {LEAST_DRAWN}")
        return Estimate(value, none, none)

    def on_rows(x: Floats, y: Floats, axis: int) -> Floats:  # scipy gives [rows, n] or [n]
        wide = np.atleast_2d(x), np.atleast_2d(y)
        result = statistic(*wide)
        return result if x.ndim > 1 else result[0]

    def interval(method: str, **options: Any) -> Any:
        return scipy.stats.bootstrap(
            (x, y), on_rows, paired=True, vectorized=True, axis=-1, method=method, **options
        )

    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an undefined BCa interval is NaN
        drawn = interval(
            "percentile", n_resamples=resamples, batch=_ROWS_AT_ONCE,
            rng=np.random.default_rng(seed),
        ).bootstrap_distribution  # fmt: skip
        known = drawn[~np.isnan(drawn)]
        defined = SimpleNamespace(bootstrap_distribution=known)
        ends = [(math.nan, math.nan)] * 2
        if known.size and not math.isnan(value):
            # of equal resamples scipy has no BCa interval
            for place, method in enumerate(
                ("percentile", "percentile" if np.ptp(known) < 1e-12 else "BCa")
            ):
                result = interval(method, n_resamples=0, bootstrap_result=defined)
                low, high = result.confidence_interval
                ends[place] = float(low), float(high)
    undefined = drawn.size - known.size
    percentile, bca = (
        Interval(*pair, method, undefined)
        for pair, method in zip(ends, ("percentile", "bca"), strict=True)
    )
    return Estimate(value, percentile, bca)


@dataclass(frozen=True)
class ChoiceProcedure:
    """What choosing the metric with the largest rho is worth, by splits of the families.

    splits: how many different ones; 0 where no two parts of the families are large enough.
    in_sample: mean rho of the chosen metric on the models it was chosen by.
    held_out: its mean rho on the others, the mean over equal ones.
    baseline: mean rho of the baseline on these; NaN without one.
    """

    splits: int
    in_sample: float
    held_out: float
    baseline: float

    @property
    def record(self) -> dict[str, Any]:
        """As JSON-ready values."""
        return {
            "splits": self.splits,
            "in_sample_mean": number(self.in_sample),
            "held_out_mean": number(self.held_out),
            "baseline_held_out_mean": number(self.baseline),
        }


def choice_procedure(
    metrics: Floats,
    target: Floats,
    groupings: Sequence[Sequence[Hashable]],
    seed: int,
    splits: int = DEFAULT_SPLITS,
    baseline: int | None = None,
) -> ChoiceProcedure:
    """Choose on a part of the models, score on the rest, many times.

    The test part is a third of the models or more, at least four, as long as five are left to
    train on. Models that share a label of any grouping are on one side.

    Args:
        metrics: `[K, n]`, oriented, complete.
        target: `[n]`.
        groupings: `[n]` labels each: families, developers. A series is in one family.
        seed: of the splits.
        splits: how many to draw; those that are drawn twice count twice.
        baseline: a variant scored on the same test models as the chosen one.
    """
    train = _training_parts(target.size, groupings, seed, splits)
    if not len(train):
        return ChoiceProcedure(0, math.nan, math.nan, math.nan)
    train_rho = _rho_of_parts(metrics, target, train)
    test_rho = _rho_of_parts(metrics, target, ~train)
    rounded = np.round(train_rho, _DIGITS)
    chosen = rounded == rounded.max(axis=0)
    held_out = (test_rho * chosen).sum(axis=0) / chosen.sum(axis=0)
    return ChoiceProcedure(
        splits=len(np.unique(train, axis=0)),
        in_sample=float(train_rho.max(axis=0).mean()),
        held_out=float(held_out.mean()),
        baseline=math.nan if baseline is None else float(test_rho[baseline].mean()),
    )


def _training_parts(
    count: int, groupings: Sequence[Sequence[Hashable]], seed: int, splits: int
) -> Flags:
    """`[splits, n]`, which models train: whole groups, drawn in random order into the test part."""
    group = codes(range(count))
    for labels in map(codes, groupings):  # joined: models that share a label of any grouping
        for label in range(labels.max(initial=-1) + 1):
            members = labels == label
            group[np.isin(group, group[members])] = group[members].min()
    group = codes(group.tolist())
    sizes = np.bincount(group)
    wanted, most = max(MINIMUM_TEST, round(count * TEST_SHARE)), count - MINIMUM_TRAINING
    generator = np.random.default_rng(seed)
    training = []
    for _ in range(splits):
        test, size = [], 0
        for one in generator.permutation(sizes.size):
            if size < wanted and size + sizes[one] <= most:
                test.append(one)
                size += sizes[one]
        if size >= MINIMUM_TEST:
            training.append(~np.isin(group, test))
    return np.array(training, dtype=np.bool_).reshape(-1, count)


def _rho_of_parts(metrics: Floats, target: Floats, part: Flags) -> Floats:
    """Spearman of each variant on each part: `[K, n]`, `[n]`, `[splits, n]` → `[K, splits]`.

    0 where a metric is constant on a part of the models: it ranks them not at all.
    """
    y = np.broadcast_to(target, part.shape)
    rows = [spearman_rows(np.broadcast_to(metric, part.shape), y, part) for metric in metrics]
    return np.nan_to_num(np.stack(rows))
