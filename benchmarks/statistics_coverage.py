"""Do the 95% intervals of metrics named beforehand cover at n = 17?

The simulated models have the family sizes of the locked problem (9, 5, 2, 1). In the worlds
with families, these share a part of the variance of metric and target, drawn independently for
both. Nothing here comes from real data. Intervals after choosing, and tests, are simulated in
statistics_selection.py.

python benchmarks/statistics_coverage.py [--data-sets 1000]
"""

from __future__ import annotations

import math
from collections import Counter

import click
import numpy as np

from analysis.statistics.correlations import Floats, spearman_rows
from analysis.statistics.families import family_interval, within_families
from analysis.statistics.resampling import (
    bca_interval,
    draw,
    jackknife,
    percentile_interval,
    replicate,
)
from analysis.statistics.skipped import mcd_skipped_rows

FAMILIES = ["qwen"] * 9 + ["llama"] * 5 + ["mistral"] * 2 + ["yi"]
LABELS = np.unique(FAMILIES, return_inverse=True)[1]
MODELS = len(FAMILIES)
RESAMPLES = 1000


@click.command()
@click.option("--data-sets", default=1000, show_default=True, help="Simulated studies.")
def main(data_sets: int) -> None:
    """Print the coverage of the intervals."""
    click.echo(f"n = {MODELS}, {data_sets} studies, {RESAMPLES} resamples each; standard error of")
    click.echo(f"a share near 95% (5%): {math.sqrt(0.95 * 0.05 / data_sets):.1%}")
    for shared in (0.0, 0.5):
        click.echo(f"\nfamily share of the variance {shared}")
        for rho in (0.0, 0.6, 0.85):
            _coverage(rho, shared, data_sets)
    for share in (0.25, 0.75):
        click.echo(f"\nfamily share of the variance {share}, interval with families only")
        for rho in (0.0, 0.6, 0.85):
            click.echo(f"  rho {rho}: {_family_coverage(rho, rho, share, data_sets)}")
    click.echo("\nfamilies differ by another rho than their members (share 0.5)")
    for between, within in ((0.0, 0.9), (0.9, 0.0)):
        found = _family_coverage(between, within, 0.5, data_sets)
        click.echo(f"  rho {between} between, {within} within: {found}")


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
    hits: Counter[tuple[str, str]] = Counter()
    widths: Counter[tuple[str, str]] = Counter()
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
                found["family"] = family_interval(x1, y1, FAMILIES)
                found["within families"] = within_families(x1, y1, FAMILIES).interval
            for method, interval in found.items():
                hits[name, method] += interval.low <= truth <= interval.high
                widths[name, method] += interval.high - interval.low
    for name in names:
        cells = ", ".join(
            f"{method} {count / data_sets:.1%} ({widths[name, method] / data_sets:.2f})"
            for (of, method), count in hits.items()
            if of == name
        )
        click.echo(f"  coverage (mean width) of {name}, rho {rho}: {cells}")


def _family_coverage(between: float, within: float, shared: float, data_sets: int) -> str:
    """Coverage of both family intervals where families and their members may correlate apart."""
    overall = 6 / math.pi * math.asin((shared * between + (1 - shared) * within) / 2)
    inside = 6 / math.pi * math.asin(within / 2)
    hits = np.zeros(2)
    widths = np.zeros(2)
    for study in range(data_sets):
        generator = np.random.default_rng([study, 5])
        own, family = generator.normal(size=(2, MODELS)), generator.normal(size=(2, 4))
        own[1] = within * own[0] + math.sqrt(1 - within**2) * own[1]
        family[1] = between * family[0] + math.sqrt(1 - between**2) * family[1]
        x, y = math.sqrt(1 - shared) * own + math.sqrt(shared) * family[:, LABELS]
        found = family_interval(x, y, FAMILIES), within_families(x, y, FAMILIES).interval
        hits += [i.low <= t <= i.high for i, t in zip(found, (overall, inside), strict=True)]
        widths += [i.high - i.low for i in found]
    (all_hits, in_hits), (all_width, in_width) = hits / data_sets, widths / data_sets
    return (
        f"family {all_hits:.1%} ({all_width:.2f}), within families {in_hits:.1%} ({in_width:.2f})"
    )


def _skipped(x: Floats, y: Floats) -> Floats:
    return mcd_skipped_rows(x, y, seed=0)


if __name__ == "__main__":
    main()
