"""Resampling of models and documents: bootstrap intervals, and splits that estimate a choice.

Intervals of models resampled one by one are scipy's (percentile; BCa, Efron 1987). A statistic
takes `[rows, points]` columns and returns `[rows]` values, NaN where undefined; resamples with an
undefined statistic are left out and counted.

`choice_procedure` chooses the best of many metrics on a part of the models and scores it on the
others, whole groups at once: a family or developer on both sides would tell the choice about the
test. The mean describes the procedure of choosing, not one metric; inference on metrics is in
`analysis.statistics.decisions`.

A metric is a sum over documents; other documents would have given other values (Deutsch, Dror &
Roth 2021): `document_noise`. The target has noise of its own: its standard errors bound what any
metric can reach (`noise_ceiling`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import scipy.stats

from analysis.statistics.correlations import (
    Flags,
    Floats,
    Interval,
    codes,
    number,
    pearson_rows,
    spearman,
    spearman_rows,
    without_rounding,
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

    found = mcd_skipped(x, y, seed)
    return bootstrap(found.value, skipped_rows, x, y, seed, resamples), found


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
        found = statistic(*wide)
        return found if x.ndim > 1 else found[0]

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
                found = interval(method, n_resamples=0, bootstrap_result=defined)
                low, high = found.confidence_interval
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
    found = []
    for _ in range(splits):
        test, size = [], 0
        for one in generator.permutation(sizes.size):
            if size < wanted and size + sizes[one] <= most:
                test.append(one)
                size += sizes[one]
        if size >= MINIMUM_TEST:
            found.append(~np.isin(group, test))
    return np.array(found, dtype=np.bool_).reshape(-1, count)


def _rho_of_parts(metrics: Floats, target: Floats, part: Flags) -> Floats:
    """Spearman of each variant on each part: `[K, n]`, `[n]`, `[splits, n]` → `[K, splits]`.

    0 where a metric is constant on a part of the models: it ranks them not at all.
    """
    y = np.broadcast_to(target, part.shape)
    rows = [spearman_rows(np.broadcast_to(metric, part.shape), y, part) for metric in metrics]
    return np.nan_to_num(np.stack(rows))


Aggregation = Literal["micro", "macro", "weighted"]
"""Aggregation of documents to a value, in the terms of the metric library; quantiles of documents
have no interval."""


@dataclass(frozen=True, eq=False)
class DocumentParts:
    """The parts of one variant's value: n models × D documents.

    parts: `[3, n, D]`, numerator, denominator and weight, NaN where a model has nothing for a
        document.
    aggregation: `micro`, the ratio of the sums; else the mean (`macro`), or the mean weighted by
        the weight, of the documents' own ratios.
    A monotone last step (an exponential) changes no rank and is left out.
    """

    parts: Floats
    aggregation: Aggregation = "micro"

    @property
    def present(self) -> Flags:
        """`[n, D]`, where there is something to add up."""
        numerator, denominator, _ = self.parts
        finite = np.isfinite(numerator) & np.isfinite(denominator)
        return np.asarray(finite & (denominator != 0))

    def values(self, counts: Floats) -> Floats:
        """The variant's value of each model on resampled documents.

        Args:
            counts: `[R, D]`, how often each document was drawn.

        Returns:
            `[R, n]`, NaN where a model has none of the drawn documents.
        """
        top, bottom, weight = self.parts
        if self.aggregation != "micro":
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = np.where(self.present, top / bottom, np.nan)
            bottom = weight if self.aggregation == "weighted" else np.ones(ratio.shape)
            top = ratio * bottom
        below = counts @ np.where(self.present, bottom, 0.0).T
        above = counts @ np.where(self.present, top, 0.0).T
        return np.asarray(above / np.where(below != 0, below, np.nan))


@dataclass(frozen=True)
class DocumentNoise:
    """Effect of sampling documents on one variant's correlation, over the models with a value.

    documents: how many; with fewer than `LEAST_DRAWN` there is no interval.
    interval: 95% percentile interval of Spearman with documents resampled.
    reliability: of the metric over documents (`split_half`).
    """

    documents: int
    interval: Interval
    reliability: float


def document_noise(
    parts: DocumentParts, metric: Floats, target: Floats, seed: int
) -> DocumentNoise | None:
    """Resample documents.

    Args:
        parts: of a variant on each document, oriented as the target is.
        metric: `[n]`, its values, NaN where missing.
        target: `[n]`.
        seed: of the resamples.

    Returns:
        None with fewer than three models that have a value and a document.
    """
    here = np.isfinite(metric) & parts.present.any(axis=1)
    if here.sum() < 3:
        return None
    own = DocumentParts(parts.parts[:, here], parts.aggregation)
    documents = own.parts.shape[2]
    interval = Interval(math.nan, math.nan, f"fewer than {LEAST_DRAWN}")
    if documents >= LEAST_DRAWN:
        generator = np.random.default_rng([seed, 1])
        share = np.full(documents, 1.0 / documents)
        counts = generator.multinomial(documents, share, size=DEFAULT_RESAMPLES)
        values = without_rounding(own.values(counts.astype(np.float64)))
        kept = np.isfinite(values)
        targets = np.broadcast_to(target[here], values.shape)
        rho = spearman_rows(np.where(kept, values, 0.0), targets, kept)
        rho = rho[~np.isnan(rho)]
        low, high = np.quantile(rho, (0.025, 0.975)) if rho.size else (math.nan, math.nan)
        undefined = DEFAULT_RESAMPLES - rho.size
        interval = Interval(float(low), float(high), "percentile", undefined)
    return DocumentNoise(documents, interval, split_half(own, seed))


def split_half(parts: DocumentParts, seed: int, halves: int = 200) -> float:
    """Reliability of a metric over documents: correlation of its values on two halves of them.

    The mean Pearson correlation over random halves, stepped up to all documents by Spearman and
    Brown's formula 2r / (1 + r). NaN with fewer than 4 documents or an undefined correlation.
    """
    documents = parts.parts.shape[2]
    if documents < 4:
        return math.nan
    generator = np.random.default_rng([seed, 2])
    first = generator.random((halves, documents)).argsort(axis=1) < documents // 2
    a, b = parts.values(first.astype(np.float64)), parts.values((~first).astype(np.float64))
    complete = np.isfinite(a).all(axis=1) & np.isfinite(b).all(axis=1)
    r = pearson_rows(a[complete], b[complete])
    half = float(np.nanmean(r)) if np.isfinite(r).any() else math.nan
    return 2 * half / (1 + half) if half > -1 else math.nan


def noise_ceiling(scores: Floats, errors: Floats) -> float:
    """Expected correlation of a perfect metric, on Pearson's scale.

    √ of the target's reliability 1 − mean(se²) / var(scores), from `[n]` scores and their standard
    errors; 0 where its noise is as large as the differences between models, NaN without errors.
    """
    spread = float(scores.var(ddof=1)) if scores.size > 1 else 0.0
    if not np.isfinite(errors).all() or spread <= 0:
        return math.nan
    return math.sqrt(max(1.0 - float((errors**2).mean()) / spread, 0.0))
