"""Time of `tokenmart select` on made-up tables, by number of models and variants.

python benchmarks/select_speed.py
"""

from __future__ import annotations

import time

import click
import numpy as np

from analysis.ranking.metric_selection import select_metric
from analysis.ranking.metric_table import MetricColumn, MetricTable, Model

SHAPES = ((17, 60), (17, 450), (90, 263))
FAMILIES = {17: (9, 5, 2, 1), 90: (3,) * 10 + (2,) * 30}


def made_up(models: int, variants: int) -> MetricTable:
    """A target, and columns of which half correlate with it by 0.6."""
    generator = np.random.default_rng(models)
    target = generator.normal(size=models)
    shares = np.where(np.arange(variants) % 2, 0.6, 0.0)[:, None]
    values = shares * target + np.sqrt(1 - shares**2) * generator.normal(size=(variants, models))
    families = [f"f{i}" for i, count in enumerate(FAMILIES[models]) for _ in range(count)]
    names = ["perplexity", *(["made_up"] * (variants - 1))]
    return MetricTable(
        problem="made_up",
        models=tuple(Model(f"m{i}", f"a/m{i}", f, 10**9 + i) for i, f in enumerate(families)),
        target=target,
        columns=tuple(
            MetricColumn(name, f"v{i}", "f", {}, "higher", True, "", row)
            for i, (name, row) in enumerate(zip(names, values, strict=True))
        ),
        without_target=(),
        target_source={},
        dtypes={},
    )


@click.command()
@click.option("--rounds", default=3, show_default=True, help="The fastest of so many counts.")
def main(rounds: int) -> None:
    """Print the seconds of each shape, without reading the warehouse."""
    for models, variants in SHAPES:
        table = made_up(models, variants)
        seconds = []
        for _ in range(rounds):
            start, used = time.perf_counter(), time.process_time()
            select_metric(table, 0)
            seconds.append((time.perf_counter() - start, time.process_time() - used))
        wall, processor = min(seconds)
        click.echo(
            f"{models} models x {variants} variants: {wall:.1f} s, {processor:.1f} s of processor"
        )


if __name__ == "__main__":
    main()
