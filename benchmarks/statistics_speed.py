"""How fast both intervals are, against one scikit-learn fit per resample in the same run.

python benchmarks/statistics_speed.py [--fits 200]
"""

from __future__ import annotations

import time
import warnings

import click
import numpy as np
from sklearn.covariance import MinCovDet

from analysis.statistics.correlations import Floats, spearman_rows
from analysis.statistics.fast_mcd import chi2_quantile, mcd_flags
from analysis.statistics.resampling import draw, percentile_interval, replicate
from analysis.statistics.skipped import mcd_skipped_rows

MODELS = 17
RESAMPLES = 10_000


@click.command()
@click.option("--fits", default=200, show_default=True, help="Scikit-learn fits to time.")
@click.option("--data-sets", default=500, show_default=True, help="Data sets whose flags compare.")
def main(fits: int, data_sets: int) -> None:
    """Print times, ratio, agreement of the flags and of the intervals."""
    warnings.simplefilter("ignore")
    generator = np.random.default_rng(0)
    x = generator.normal(size=MODELS)
    y = 0.6 * x + 0.8 * generator.normal(size=MODELS)
    draws = draw(MODELS, RESAMPLES, seed=0)
    replicate(_skipped, x, y, draw(MODELS, 300, seed=1))

    start = time.perf_counter()
    plain = percentile_interval(replicate(spearman_rows, x, y, draws))
    skipped = percentile_interval(replicate(_skipped, x, y, draws))
    fast_seconds = time.perf_counter() - start

    rows = draws.groups[0][:fits]
    start = time.perf_counter()
    slow = np.array([_one_fit(x[row], y[row]) for row in rows])
    slow_seconds = (time.perf_counter() - start) / fits
    fast = _skipped(x[rows], y[rows])

    click.echo(f"n = {MODELS}, {RESAMPLES} resamples, Spearman and skipped Spearman together")
    click.echo(f"vectorised            {fast_seconds:.2f} s")
    click.echo(f"scikit-learn          {slow_seconds * 1e3:.1f} ms a fit")
    click.echo(f"ratio                 {slow_seconds * RESAMPLES / fast_seconds:.0f} times faster")
    click.echo(f"intervals             {plain.low:+.3f} to {plain.high:+.3f}; "
               f"{skipped.low:+.3f} to {skipped.high:+.3f}")  # fmt: skip
    same = np.isclose(fast, slow, atol=1e-12) | (np.isnan(fast) & np.isnan(slow))
    click.echo(f"same replicates       {same.sum()} of {fits}")
    click.echo(f"degenerate resamples  {skipped.degenerate}")
    click.echo(f"flags identical       {_identical(data_sets)} of {data_sets} random data sets")


def _skipped(x: Floats, y: Floats) -> Floats:
    return mcd_skipped_rows(x, y, seed=0)


def _keep(x: Floats, y: Floats, seed: int) -> np.ndarray:
    fitted = MinCovDet(random_state=seed).fit(np.column_stack([x, y]))
    return fitted.dist_ <= chi2_quantile(0.975)


def _one_fit(x: Floats, y: Floats) -> float:
    keep = _keep(x, y, 0)
    return float(spearman_rows(x[None], y[None], keep[None])[0])


def _identical(data_sets: int) -> int:
    count = 0
    for seed in range(data_sets):
        generator = np.random.default_rng(1000 + seed)
        x = generator.standard_t(3, size=MODELS)
        y = generator.uniform(-1, 1) * x + generator.standard_t(3, size=MODELS)
        count += bool((mcd_flags(x[None], y[None], seed).keep[0] == _keep(x, y, seed)).all())
    return count


if __name__ == "__main__":
    main()
