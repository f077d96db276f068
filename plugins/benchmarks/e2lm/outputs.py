"""Options and output of the commands of `tokenmart e2lm`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from warehouse.errors import visible
from warehouse.options import FiniteRange

if TYPE_CHECKING:
    from warehouse.paths import Workspace


def workspace_for(out: Path | None, force: bool, expected: bytes) -> Workspace:
    """The checkout; raises an error before the computation if `out` may not be written.

    An earlier result has `own` in its first bytes and is replaced without --force.
    """
    from warehouse.files import refuse_protected
    from warehouse.paths import find_workspace

    workspace = find_workspace()
    if out is not None:
        refuse_protected(out, workspace, force=force, expected=expected)
    return workspace


def say(notes: Iterable[str]) -> None:
    """Print notes on standard error, one per line."""
    for note in notes:
        click.echo(visible(f"note: {note}"), err=True)


def as_text(record: object) -> str:
    """A result as JSON without NaN.

    Raises:
        ValueError: a number isn't finite.
    """
    return json.dumps(record, indent=2, allow_nan=False)


def write_out(out: Path, text: str, what: str = "") -> None:
    """Write a file atomically, and print its name and a summary.

    Raises:
        StorageError: the file can't be written.
    """
    from warehouse.files import write_whole

    write_whole(out, text)
    click.echo(f"written {out}{what}")


WEIGHTS = click.option(
    "--weights",
    metavar="A B C",
    type=click.Tuple([FiniteRange(0)] * 3),
    default=(0.5, 0.1, 0.4),
    show_default=True,
    help="Weights of SQ, RC and CS in the weighted score.",
)
