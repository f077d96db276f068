"""How well one column of scores tracks the target: the coefficients, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.statistics.bootstrap import (
    DEFAULT_RESAMPLES,
    Draws,
    Interval,
    Statistic,
    bca_interval,
    draw,
    jackknife,
    percentile_interval,
    replicate,
)
from analysis.statistics.correlations import Floats, kendall, pearson, spearman, spearman_rows
from analysis.statistics.skipped import Skipped, mcd_skipped, mcd_skipped_rows, projection_skipped


@dataclass(frozen=True)
class Estimate:
    """A coefficient with its percentile and BCa 95% intervals."""

    value: float
    percentile: Interval
    bca: Interval


@dataclass(frozen=True)
class Agreement:
    """Every coefficient of one metric against the target, over n models.

    `skipped` is the MCD-filtered statistic of the locked problem; `projection` is the other
    one that goes by the name, Wilcox's.
    """

    n: int
    spearman: Estimate
    pearson: float
    kendall: float
    skipped: Skipped
    skipped_spearman: Estimate
    projection: Skipped


def agreement(
    x: Floats,
    y: Floats,
    seed: int,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: Sequence[str] | None = None,
) -> Agreement:
    """Correlate `[n]` scores with the `[n]` target.

    Args:
        x: the metric.
        y: the target.
        seed: of the bootstrap and of the MCD filter.
        resamples: of each interval; both intervals use the same resamples.
        clusters: families to resample as wholes; None resamples models.
    """
    draws = draw(x.size, resamples, seed, clusters)
    skipped = mcd_skipped(x, y, seed)

    def skipped_rows(columns_x: Floats, columns_y: Floats) -> Floats:
        return mcd_skipped_rows(columns_x, columns_y, seed)

    return Agreement(
        n=x.size,
        spearman=_estimate(spearman(x, y), spearman_rows, x, y, draws, clusters),
        pearson=pearson(x, y),
        kendall=kendall(x, y),
        skipped=skipped,
        skipped_spearman=_estimate(skipped.value, skipped_rows, x, y, draws, clusters),
        projection=projection_skipped(x, y, seed),
    )


def _estimate(
    value: float,
    statistic: Statistic,
    x: Floats,
    y: Floats,
    draws: Draws,
    clusters: Sequence[str] | None,
) -> Estimate:
    replicates = replicate(statistic, x, y, draws)
    left_out = jackknife(statistic, x, y, clusters)
    return Estimate(
        value=value,
        percentile=percentile_interval(replicates),
        bca=bca_interval(value, replicates, left_out),
    )
