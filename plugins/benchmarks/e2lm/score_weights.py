"""The option `--weights` of the weighted score."""

from __future__ import annotations

import click


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
