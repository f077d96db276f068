"""What any test or interval can reach with 17 models: the limits of docs/explanation/statistics.md.

The power of a one-sided test at 5% of the difference of two Fisher z, whose null distribution is
known exactly: the 95% quantile of simulated differences of equal pairs. Metrics are independent of
each other given the target. And the quantiles of the largest of 60 normal errors in 20 groups.

python benchmarks/statistics_limits.py --out benchmarks/statistics_limits.json
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from statistics_selection import DESIGNS, METRICS, PER_METRIC, WITHIN_METRIC, Design

from analysis.statistics.correlations import Floats

EQUAL = (0.0, 0.5, 0.7, 0.8, 0.9)
TYPICAL = 0.7
MOST = 0.9988
"""rho of 17 models, half a swap of neighbours below 1."""


def _unit(values: Floats) -> Floats:
    centred = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.linalg.norm(centred, axis=-1, keepdims=True))


def _ranks(values: Floats) -> Floats:
    return _unit(values.argsort(axis=-1).argsort(axis=-1).astype(np.float64))


def differences(
    design: Design, pair: tuple[float, float], scale: Callable[[Floats], Floats], within: bool,
    studies: int,
) -> Floats:  # fmt: skip
    """`[studies]` z of a metric minus z of another; `within` removes family means first."""
    generator = np.random.default_rng(1)
    target = design.columns(generator, studies)
    rho = np.array(pair)[:, None]
    metrics = rho * target[:, None] + np.sqrt(1 - rho**2) * design.columns(generator, studies, 2)
    x, y = scale(metrics), scale(target)[:, None]
    if within:
        family = np.unique(design.families, return_inverse=True)[1]
        member = (np.arange(family.max() + 1)[:, None] == family).astype(np.float64)
        mean = (member / member.sum(axis=1, keepdims=True)).T
        x, y = (_unit(each - (each @ mean)[..., family]) for each in (x, y))
    z = np.arctanh(np.clip((x * y).sum(axis=-1), -MOST, MOST))
    return np.asarray(z[:, 0] - z[:, 1])


def limits(design: Design, studies: int) -> dict[str, list[float]]:
    """Statistic → power where the level holds for all equal pairs, and for those of .7."""
    found = {}
    for name, scale in (("spearman", _ranks), ("pearson", _unit)):
        for where, within in (("", False), (" within families", True)):
            critical = {
                rho: np.quantile(differences(design, (rho, rho), scale, within, studies), 0.95)
                for rho in EQUAL
            }
            better = differences(design, (0.9, 0.5), scale, within, studies)
            found[name + where] = [
                round(float((better > bound).mean()), 4)
                for bound in (max(critical.values()), critical[TYPICAL])
            ]
    return found


def quantiles(draws: int) -> dict[str, float]:
    """Of the largest of the errors of all variants, if all metrics are equal."""
    generator = np.random.default_rng(0)
    shared = generator.normal(size=(draws, METRICS, 1))
    own = generator.normal(size=(draws, METRICS, PER_METRIC))
    errors = np.sqrt(WITHIN_METRIC) * shared + np.sqrt(1 - WITHIN_METRIC) * own
    largest = errors.reshape(draws, -1).max(axis=1)
    return {f"{level:.1%}": round(float(np.quantile(largest, level)), 3) for level in (0.95, 0.975)}


@click.command()
@click.option("--studies", default=40_000, show_default=True, help="Simulated studies.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Write this JSON file.")
def main(studies: int, out: Path) -> None:
    """Simulate the limits."""
    found = {
        "studies": studies,
        "largest_error": quantiles(200_000),
        "power": {d.name: limits(d, studies) for d in DESIGNS if d.models == 17},
    }
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    click.echo(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
