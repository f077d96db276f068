"""How well a metric tracks the target over the models: coefficients, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.bootstrap import (
    DEFAULT_RESAMPLES,
    Estimate,
    Interval,
    bootstrap_estimate,
    draw,
)
from analysis.statistics.correlations import Floats, kendall, pearson, spearman, spearman_rows
from analysis.statistics.families import WithinFamilies, family_interval, within_families
from analysis.statistics.skipped import Skipped, mcd_skipped, mcd_skipped_rows, projection_skipped


@dataclass(frozen=True)
class Correlations:
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


@dataclass(frozen=True)
class ColumnCorrelation:
    """Spearman's rho of a column over the n models that have a value.

    family_interval: of rho, allowing for models of a family being alike.
    within_families: rho of the differences inside families.
    bootstrapped: every coefficient with bootstrap intervals; None where they weren't asked for.
    """

    n: int
    rho: float
    family_interval: Interval
    within_families: WithinFamilies
    bootstrapped: Correlations | None


def correlate_column(
    column: Floats,
    target: Floats,
    families: Sequence[str],
    seed: int,
    resamples: int | None,
    clustered: bool = False,
) -> ColumnCorrelation:
    """Correlate one column of a metric table with the target.

    Args:
        column: `[n]` the metric, NaN where a model has no value.
        target: `[n]`.
        families: the family of each model.
        seed: of the bootstrap and of the MCD filter.
        resamples: of each bootstrap interval; None computes none.
        clustered: resample families instead of models.
    """
    present = np.isfinite(column)
    x, y = column[present], target[present]
    of_present = [family for family, there in zip(families, present, strict=True) if there]
    return ColumnCorrelation(
        n=x.size,
        rho=spearman(x, y),
        family_interval=family_interval(x, y, of_present),
        within_families=within_families(x, y, of_present),
        bootstrapped=None
        if resamples is None
        else correlate_with_target(x, y, seed, resamples, of_present if clustered else None),
    )


def correlate_with_target(
    x: Floats,
    y: Floats,
    seed: int,
    resamples: int = DEFAULT_RESAMPLES,
    clusters: Sequence[str] | None = None,
) -> Correlations:
    """Correlate `[n]` scores with the `[n]` target.

    Args:
        x: the metric.
        y: the target.
        seed: of the bootstrap and of the MCD filter.
        resamples: of each interval; both intervals use the same resamples.
        clusters: families to resample as wholes; None resamples models.
    """

    def skipped_rows(columns_x: Floats, columns_y: Floats) -> Floats:
        return mcd_skipped_rows(columns_x, columns_y, seed)

    rho, r, tau = spearman(x, y), pearson(x, y), kendall(x, y)
    skipped = mcd_skipped(x, y, seed)
    projection = projection_skipped(x, y, seed)
    draws = draw(x.size, resamples, seed, clusters)
    return Correlations(
        n=x.size,
        spearman=bootstrap_estimate(rho, spearman_rows, x, y, draws, clusters),
        pearson=r,
        kendall=tau,
        skipped=skipped,
        skipped_spearman=bootstrap_estimate(skipped.value, skipped_rows, x, y, draws, clusters),
        projection=projection,
    )
