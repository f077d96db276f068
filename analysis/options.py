"""Options that several commands of the analysis share."""

from __future__ import annotations

import click

SEED = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Random seed of the bootstrap, the permutations and the MCD filter.",
)

RESAMPLES = click.option(
    "--resamples",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 1_000_000),
    help="Number of bootstrap resamples of each interval.",
)
