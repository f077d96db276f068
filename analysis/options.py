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


def _weights(_: click.Context, option: click.Parameter, value: str) -> tuple[float, float, float]:
    try:
        sq, rc, cs = (float(part) for part in value.split(","))
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r} is not three numbers such as 0.5,0.1,0.4", param=option
        ) from error
    if not all(0 <= weight < float("inf") for weight in (sq, rc, cs)):
        raise click.BadParameter(
            f"{value!r} has a weight that is not a number of at least 0", param=option
        )
    return sq, rc, cs


WEIGHTS = click.option(
    "--weights",
    metavar="A,B,C",
    callback=_weights,
    default="0.5,0.1,0.4",
    show_default=True,
    help="Weights of SQ, RC and CS in the weighted score.",
)
