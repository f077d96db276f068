"""Options that several commands of the analysis share."""

from __future__ import annotations

from pathlib import Path

import click

FILE = click.Path(path_type=Path)

SEED = click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0, 2**32 - 1),
    help="Seed of the bootstrap, the permutations and the MCD filter.",
)

PROBLEM = click.option(
    "--problem",
    default="minilong",
    show_default=True,
    help="Name of a shipped problem, or path of a problem file.",
)

RESAMPLES = click.option(
    "--resamples",
    default=10_000,
    show_default=True,
    type=click.IntRange(100, 1_000_000),
    help="Number of bootstrap resamples behind each interval.",
)
