"""Choosing the best of many metrics on a part of the models, and scoring it on the others.

Directions are declared, so the choice on the training models is the metric with the largest signed
Spearman. What it is worth is measured on models the choice never saw: the mean over random splits
(repeated hold-out; Burman 1989). It describes the procedure of choosing; inference on the chosen
metric is in `analysis.statistics.simultaneous`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.statistics.correlations import Flags, Floats, unit_ranks

MINIMUM_TRAINING = 5
DEFAULT_SPLITS = 500
TEST_SHARE = 1 / 3

_DIGITS = 10
"""Correlations equal to this many digits are equal: the rest is rounding of the processor."""


@dataclass(frozen=True)
class Splits:
    """Repeated random train/test splits.

    tested: models in each test part; the choice is made on the others.
    chosen: `[K, splits]` variants with the largest rho on the training part, mostly one.
    train: `[splits]` rho of the choice there; test: `[splits]` its rho on the rest, the mean over
        equal ones: which of them comes first is no reason to choose it.
    variant_test: `[K]` mean test rho of each variant.
    baseline_test: `[splits]` test rho of the baseline variant, or None.
    """

    tested: int
    chosen: Flags
    train: Floats
    test: Floats
    variant_test: Floats
    baseline_test: Floats | None

    @property
    def held_out(self) -> float:
        """Mean test correlation of the procedure."""
        return float(self.test.mean())

    @property
    def baseline_held_out(self) -> float:
        """Mean test correlation of the baseline; NaN without one."""
        return math.nan if self.baseline_test is None else float(self.baseline_test.mean())

    @property
    def beats_baseline(self) -> float:
        """Share of the splits in which the choice does better than the baseline; ties half."""
        if self.baseline_test is None:
            return math.nan
        ahead = np.round(self.test - self.baseline_test, _DIGITS)
        return float((1.0 + np.sign(ahead)).mean() / 2)

    @property
    def optimism(self) -> float:
        """Mean training correlation minus mean test correlation of what was chosen."""
        return float(self.train.mean() - self.test.mean())


def repeated_splits(
    metrics: Floats,
    target: Floats,
    seed: int,
    splits: int = DEFAULT_SPLITS,
    baseline: int | None = None,
) -> Splits:
    """Choose on a part of the models, score on the rest, many times.

    The test part is a third of the models, but at least four, as long as five are left to
    train on: a correlation of fewer models is hardly informative.

    Args:
        metrics: `[K, n]`, oriented, complete.
        target: `[n]`.
        seed: of the splits.
        splits: how many.
        baseline: a variant scored on the same test models as the chosen one.
    """
    count = target.size
    test_size = min(max(4, round(count * TEST_SHARE)), count - MINIMUM_TRAINING)
    generator = np.random.default_rng(seed)
    order = np.argsort(generator.random((splits, count)), axis=1)
    train = np.zeros((splits, count), dtype=np.bool_)
    np.put_along_axis(train, order[:, test_size:], True, axis=1)
    # a metric that is constant on a part of the models ranks them not at all: 0, not unknown
    train_rho = np.nan_to_num(_rho_of_parts(metrics, target, train))
    test_rho = np.nan_to_num(_rho_of_parts(metrics, target, ~train))
    rounded = np.round(train_rho, _DIGITS)
    chosen = rounded == rounded.max(axis=0)
    return Splits(
        tested=test_size,
        chosen=chosen,
        train=train_rho.max(axis=0),
        test=(test_rho * chosen).sum(axis=0) / chosen.sum(axis=0),
        variant_test=test_rho.mean(axis=1),
        baseline_test=None if baseline is None else test_rho[baseline],
    )


def _rho_of_parts(metrics: Floats, target: Floats, part: Flags) -> Floats:
    """Spearman of each variant on each part: `[K, n]`, `[n]`, `[splits, n]` → `[K, splits]`."""
    y = unit_ranks(np.broadcast_to(target, part.shape), part)
    result = np.empty((len(metrics), len(part)))
    for row, metric in enumerate(metrics):
        x = unit_ranks(np.broadcast_to(metric, part.shape), part)
        result[row] = (x * y).sum(axis=1)
    return result
