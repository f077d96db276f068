"""Options that several commands share: one name, one meaning, one help text."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from warehouse.paths import Workspace

FILE = click.Path(path_type=Path)
PROBLEM_HELP = "Name of the problem, or path of its .yml file"


class FiniteRange(click.FloatRange):
    """A number in a range; without `nan` and `inf`, which click takes."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


def required_problem(context: click.Context, parameter: click.Parameter, given: str | None) -> str:
    """The value of `--problem`; without one, the error lists the problems that are here."""
    if given is not None:
        return given
    from warehouse.paths import find_workspace, problems_here

    raise click.UsageError(f"--problem is missing; {problems_here(find_workspace())}", context)


def problem_or_newest(problem: str | None, workspace: Workspace) -> str:
    """The given problem, or the one extracted last.

    Raises:
        TokenmartError: none is given, and nothing was extracted.
    """
    from warehouse.errors import TokenmartError
    from warehouse.paths import problem_argument, problems_here

    if problem is not None:
        return problem
    stored = (workspace.tokens, workspace.pending)  # pending: of a run that was stopped
    files = [file for folder in stored for file in folder.glob("problem=*/*/*/*.parquet")]
    if not files:
        raise TokenmartError(
            f"--problem is missing, and nothing was extracted; {problems_here(workspace)}",
            code="no-problem",
            where="--problem",
        )

    def written(file: Path) -> int:
        with suppress(FileNotFoundError):  # published by a run that goes on
            return file.stat().st_mtime_ns
        return 0

    name = max(files, key=written).parts[-4].partition("=")[2]
    return problem_argument(name, workspace) or f"{name}.yml"


def last_problem(context: click.Context, parameter: click.Parameter, given: str | None) -> str:
    """The value of `--problem`, by default the problem that was extracted last; printed."""
    from warehouse.errors import visible
    from warehouse.paths import find_workspace

    if given is not None:
        return given
    newest = problem_or_newest(None, find_workspace())
    click.echo(visible(f"--problem {newest} (extracted last)"), err=True)
    return newest


LAST_PROBLEM = click.option(
    "--problem",
    callback=last_problem,
    help=f"{PROBLEM_HELP}; default: the one extracted last.",
)
PROBLEM = click.option(
    "--problem", "problem_name", callback=required_problem, help=f"{PROBLEM_HELP}; required."
)
ANY_PROBLEM = click.option(
    "--problem", "problem_name", help=f"{PROBLEM_HELP}; default: all problems."
)

MODELS = click.option("--model", "models", multiple=True, help="Use only this model; repeatable.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
RECORDS = click.option(
    "--json", "as_json", is_flag=True, help="Print a list of records as JSON; notes go to stderr."
)
"""Of commands that print with `warehouse.terminal.print_records`."""
WIDE = click.option("--wide", is_flag=True, help="Show all columns, wider than the terminal.")
FORCE = click.option("--force", is_flag=True, help="Replace an existing result.")
FORCE_OTHER = click.option(
    "--force",
    is_flag=True,
    help="Replace a file of another kind; an earlier output of this kind is always replaced.",
)
"""Of commands that pass `own` to `refuse_protected`."""
DEVICE = click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Device: auto, cpu, cuda, cuda:1, or auto-map (one model over several GPUs).",
)
DTYPE = click.option(
    "--dtype",
    default="auto",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    show_default=True,
    help="Number format of the weights; auto: that of the problem file, else float32 (on "
    "a GPU bfloat16).",
)
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
