"""Do the 95% intervals and the 5% tests keep their promise at n = 17, with families?

The simulated models have the family sizes of the locked problem (9, 5, 2, 1). Three worlds:
independent models; families that share a level in metric or target, not in both for the same
reason (share 0.5 of the variance, drawn independently for metric and target).

python benchmarks/statistics_coverage.py [--data-sets 1000]
"""

from __future__ import annotations

import math

import click
import numpy as np

from analysis.bootstrap import bca_interval, draw, jackknife, percentile_interval, replicate
from analysis.comparison import difference, swap_test
from analysis.correlations import Floats, spearman_rows
from analysis.permutation import max_test
from analysis.skipped import mcd_skipped_rows

FAMILIES = ["qwen"] * 9 + ["llama"] * 5 + ["mistral"] * 2 + ["yi"]
LABELS = np.unique(FAMILIES, return_inverse=True)[1]
MODELS = len(FAMILIES)
RESAMPLES = 1000
VARIANTS = 50


@click.command()
@click.option("--data-sets", default=1000, show_default=True, help="Simulated studies.")
def main(data_sets: int) -> None:
    """Print coverage of the intervals and level of the tests."""
    click.echo(f"n = {MODELS}, {data_sets} studies, {RESAMPLES} resamples each; standard error of")
    click.echo(f"a share near 95% (5%): {math.sqrt(0.95 * 0.05 / data_sets):.1%}")
    for shared in (0.0, 0.5):
        click.echo(f"\nfamily share of the variance {shared}")
        for rho in (0.0, 0.6, 0.85):
            _coverage(rho, shared, data_sets)
        _levels(shared, data_sets)
    click.echo("")
    _difference(data_sets)


def noise(generator: np.random.Generator, shared: float, shape: tuple[int, ...] = ()) -> Floats:
    """Standard normal columns `[..., n]` with an intraclass correlation within families."""
    own = generator.normal(size=(*shape, MODELS))
    family = generator.normal(size=(*shape, LABELS.max() + 1))[..., LABELS]
    return np.asarray(math.sqrt(1 - shared) * own + math.sqrt(shared) * family)


def _coverage(rho: float, shared: float, data_sets: int) -> None:
    """Share of studies whose interval holds the population value."""
    spearman_truth = 6 / math.pi * math.asin(rho / 2)
    big = np.random.default_rng(1)
    x = big.normal(size=(40, 499))
    y = rho * x + math.sqrt(1 - rho**2) * big.normal(size=(40, 499))
    skipped_truth = float(np.nanmean(mcd_skipped_rows(x, y, 0)))
    names = ("Spearman", "skipped Spearman")
    hits = {(name, method): 0 for name in names for method in ("percentile", "BCa", "clustered")}
    widths = dict.fromkeys(names, 0.0)
    for study in range(data_sets):
        generator = np.random.default_rng([study, 2])
        x1 = noise(generator, shared)
        y1 = rho * x1 + math.sqrt(1 - rho**2) * noise(generator, shared)
        plain = draw(MODELS, RESAMPLES, seed=study)
        by_family = draw(MODELS, RESAMPLES, study, FAMILIES)
        for name, statistic, truth in (
            ("Spearman", spearman_rows, spearman_truth),
            ("skipped Spearman", _skipped, skipped_truth),
        ):
            replicates = replicate(statistic, x1, y1, plain)
            estimate = float(statistic(x1[None], y1[None])[0])
            percentile = percentile_interval(replicates)
            found = {
                "percentile": percentile,
                "BCa": bca_interval(estimate, replicates, jackknife(statistic, x1, y1)),
            }
            if name == "Spearman":
                found["clustered"] = percentile_interval(replicate(statistic, x1, y1, by_family))
            widths[name] += percentile.high - percentile.low
            for method, interval in found.items():
                hits[name, method] += interval.low <= truth <= interval.high
    for name in names:
        cells = ", ".join(
            f"{method} {hits[name, method] / data_sets:.1%}"
            for method in ("percentile", "BCa", *(["clustered"] if name == "Spearman" else []))
        )
        click.echo(
            f"  coverage of {name} (rho {rho}): {cells}; percentile width "
            f"{widths[name] / data_sets:.2f}"
        )


def _levels(shared: float, data_sets: int) -> None:
    """Share of studies without any signal in which the best of 50 variants has p < 0.05."""
    found = {"free": 0, "within families": 0, "unadjusted": 0}
    for study in range(data_sets):
        generator = np.random.default_rng([study, 3])
        common = noise(generator, shared, (5,))
        weights = generator.normal(size=(VARIANTS, 5))
        metrics = weights @ common + noise(generator, shared, (VARIANTS,))
        target = noise(generator, shared)
        free = max_test(metrics, target, study, 1000)
        within = max_test(metrics, target, study, 1000, FAMILIES)
        found["free"] += free.p_adjusted.min() < 0.05
        found["unadjusted"] += free.p_single.min() < 0.05
        found["within families"] += within.p_adjusted.min() < 0.05
    click.echo(
        f"  max-statistic test of {VARIANTS} variants, no signal: "
        + ", ".join(f"{name} {count / data_sets:.1%}" for name, count in found.items())
    )


def _difference(data_sets: int) -> None:
    """The comparison with a baseline: coverage of the interval, level of the swap test."""
    for rho_x, rho_b in ((0.6, 0.6), (0.7, 0.3)):
        truth = 6 / math.pi * (math.asin(rho_x / 2) - math.asin(rho_b / 2))
        hits = {"percentile": 0, "BCa": 0}
        rejected = best_rejected = 0
        for study in range(data_sets):
            generator = np.random.default_rng([study, 4])
            target = generator.normal(size=MODELS)

            def tracking(rho: float, count: int) -> Floats:
                own = generator.normal(size=(count, MODELS))  # noqa: B023
                return np.asarray(rho * target + math.sqrt(1 - rho**2) * own)  # noqa: B023

            metrics, baseline = tracking(rho_x, 20), tracking(rho_b, 1)[0]
            interval = difference(metrics[0], baseline, target, draw(MODELS, RESAMPLES, seed=study))
            for name, bounds in (("percentile", interval.percentile), ("BCa", interval.bca)):
                hits[name] += bounds.low <= truth <= bounds.high
            test = swap_test(metrics, baseline, target, study, 1000)
            rejected += test.p_single[0] < 0.05
            best_rejected += test.p_adjusted.min() < 0.05
        click.echo(
            f"difference of Spearmans ({rho_x} and {rho_b}): coverage percentile "
            f"{hits['percentile'] / data_sets:.1%}, BCa {hits['BCa'] / data_sets:.1%}; swap test "
            f"rejects {rejected / data_sets:.1%} single, {best_rejected / data_sets:.1%} for the "
            "best of 20"
        )


def _skipped(x: Floats, y: Floats) -> Floats:
    return mcd_skipped_rows(x, y, seed=0)


if __name__ == "__main__":
    main()
