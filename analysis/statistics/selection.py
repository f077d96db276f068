"""Choosing among many variants, with the choice made inside the training part only.

What is chosen is fixed: on the training models, take the variant with the largest |Spearman| and
the sign it has there. What it is worth is measured on models the choice never saw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.correlations import Flags, Floats, Indices, spearman_rows, unit_ranks

MINIMUM_TRAINING = 5
DEFAULT_SPLITS = 500
TEST_SHARE = 1 / 3

_DIGITS = 12
"""Correlations that agree to so many are equal: what is left is the rounding of the processor."""


@dataclass(frozen=True)
class Choice:
    """The choice on one training part; `rho` is its training Spearman, with its sign."""

    variant: int
    rho: float


@dataclass(frozen=True)
class LeftOut:
    """Leave-one-out over models or families.

    held_out: Spearman of the target with each model's place, by the metric chosen without
        it, among the models the choice was made on. NaN where undefined.
    choices: what was chosen in each fold.
    covered: models that were predicted (folds with too few training models are skipped).
    p: of `held_out` against permutations, where somebody tested it (`null_held_out`).
    """

    held_out: float
    choices: tuple[Choice, ...]
    covered: int
    p: float = math.nan


@dataclass(frozen=True)
class Splits:
    """Repeated random train/test splits.

    tested: models in each test part; the choice is made on the others.
    chosen: `[splits]` variant chosen on the training part.
    train: `[splits]` |rho| of the choice there; test: `[splits]` its signed rho on the rest.
    variant_test: `[K]` mean test rho of each variant, with the sign of its training part.
    baseline_test: `[splits]` test rho of the baseline variant, or None.
    """

    tested: int
    chosen: Indices
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
        ahead = self.test - self.baseline_test
        return float((ahead > 1e-12).mean() + (np.abs(ahead) <= 1e-12).mean() / 2)

    @property
    def optimism(self) -> float:
        """Mean training correlation minus mean test correlation of what was chosen."""
        return float(self.train.mean() - self.test.mean())


def choose(metrics: Floats, target: Floats) -> Choice:
    """The variant with the largest |Spearman|, the first among equals.

    Args:
        metrics: `[K, n]`, oriented, complete.
        target: `[n]`.
    """
    rho = spearman_rows(metrics, np.broadcast_to(target, metrics.shape))
    best = int(_first_largest(rho))
    return Choice(best, float(rho[best]))


def leave_out(metrics: Floats, target: Floats, folds: Iterable[Flags]) -> LeftOut:
    """Choose without each fold's models, then place those models among the others.

    Args:
        metrics: `[K, n]`, oriented, complete.
        target: `[n]`.
        folds: `[n]` flags, True for the models left out.

    Returns:
        For a single variant and one model a fold, `held_out` is its plain Spearman.
    """
    place = np.full(target.size, np.nan)
    choices = []
    for out in folds:
        if (~out).sum() < MINIMUM_TRAINING:
            continue
        choice = choose(metrics[:, ~out], target[~out])
        choices.append(choice)
        if np.isnan(choice.rho):
            continue
        known = metrics[choice.variant, ~out]
        for model in np.flatnonzero(out):
            value = metrics[choice.variant, model]
            share = ((known < value).sum() + 0.5 * (known == value).sum()) / known.size
            place[model] = share if choice.rho >= 0 else 1.0 - share
    covered = ~np.isnan(place)
    rho = spearman_rows(place[None, covered], target[None, covered])[0] if covered.any() else np.nan
    return LeftOut(float(rho), tuple(choices), int(covered.sum()))


def null_held_out(
    metrics: Floats, target: Floats, folds: Iterable[Flags], order: Indices
) -> Floats:
    """`leave_out(…).held_out` with the target in each of `[permutations, n]` orders.

    It is no coin toss around 0: leaving a model out of both the choice and the ranks pushes the
    figure down, levels that families share push it up. Its own null distribution says what is
    much.

    Returns:
        `[permutations]`, NaN where undefined.
    """
    permuted = target[order]
    place = np.full(permuted.shape, np.nan)
    columns = np.arange(len(order))
    for out in folds:
        if (~out).sum() < MINIMUM_TRAINING:
            continue
        known = metrics[:, ~out]
        everyone = np.ones(known.shape, dtype=np.bool_)
        y = permuted[:, ~out]
        x = unit_ranks(known, everyone)
        rho = x @ unit_ranks(y, np.ones(y.shape, dtype=np.bool_)).T
        chosen = _first_largest(rho)
        positive = _signs(rho[chosen, columns]) > 0
        for model in np.flatnonzero(out):
            value = metrics[:, model, None]
            share = ((known < value).sum(axis=1) + 0.5 * (known == value).sum(axis=1)) / (
                ~out
            ).sum()
            place[:, model] = np.where(positive, share[chosen], 1.0 - share[chosen])
    covered = ~np.isnan(place).any(axis=0)
    return np.asarray(spearman_rows(place[:, covered], permuted[:, covered]))


def model_folds(models: int) -> list[Flags]:
    """One fold per model."""
    return list(np.eye(models, dtype=np.bool_))


def group_folds(groups: Sequence[str]) -> list[Flags]:
    """One fold per family or kind, in the order of their names."""
    labels = np.array(groups)
    return [labels == group for group in sorted(set(groups))]


def repeated_splits(
    metrics: Floats,
    target: Floats,
    seed: int,
    splits: int = DEFAULT_SPLITS,
    baseline: int | None = None,
) -> Splits:
    """Choose on a part of the models, score on the rest, many times.

    The test part is a third of the models, but at least four, as long as five are left to
    train on: below, a correlation says nothing.

    Args:
        metrics: `[K, n]`, oriented, complete.
        target: `[n]`.
        seed: of the splits.
        splits: how many.
        baseline: a variant scored beside the choice on the same test models.
    """
    count = target.size
    test_size = min(max(4, round(count * TEST_SHARE)), count - MINIMUM_TRAINING)
    generator = np.random.default_rng(seed)
    order = np.argsort(generator.random((splits, count)), axis=1)
    train = np.zeros((splits, count), dtype=np.bool_)
    np.put_along_axis(train, order[:, test_size:], True, axis=1)
    train_rho = _rho_of_parts(metrics, target, train)
    test_rho = _rho_of_parts(metrics, target, ~train)
    # A metric that is constant on the test models tells them apart not at all: 0, not unknown.
    signed = np.nan_to_num(_signs(train_rho) * test_rho)
    chosen = _first_largest(train_rho)
    rows = np.arange(splits)
    return Splits(
        tested=test_size,
        chosen=chosen,
        train=np.nan_to_num(np.abs(train_rho[chosen, rows])),
        test=signed[chosen, rows],
        variant_test=signed.mean(axis=1),
        baseline_test=None if baseline is None else signed[baseline],
    )


def _first_largest(rho: Floats) -> Indices:
    """The place of the largest |rho| along the first axis, the first among equals; NaN is least."""
    sizes = np.nan_to_num(np.round(np.abs(rho), _DIGITS), nan=-1.0)
    return np.asarray(np.argmax(sizes, axis=0))


def _signs(rho: Floats) -> Floats:
    """1 or −1; 1 where rho is 0 or undefined."""
    return np.where(np.round(np.nan_to_num(rho), _DIGITS) >= 0, 1.0, -1.0)


def _rho_of_parts(metrics: Floats, target: Floats, part: Flags) -> Floats:
    """Spearman of each variant on each part: `[K, n]`, `[n]`, `[splits, n]` → `[K, splits]`."""
    y = unit_ranks(np.broadcast_to(target, part.shape), part)
    result = np.empty((len(metrics), len(part)))
    for row, metric in enumerate(metrics):
        x = unit_ranks(np.broadcast_to(metric, part.shape), part)
        result[row] = (x * y).sum(axis=1)
    return result
