"""Options that several commands share: one name, one meaning, one help text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(path_type=Path)


def problem_option(
    parameter: str = "problem_name", *, required: bool = False, default: str | None = None
) -> Callable[[Command], Command]:
    """`--problem`: a name or a path. Where it is neither required nor has a default, all are meant.

    Args:
        parameter: name of the command's argument.
        required: whether the command needs one.
        default: the problem that is meant without the option.
    """
    text = "Name of the problem, or path of its .yml file"
    if not required and default is None:
        text += "; default: all problems"
    return click.option(
        "--problem",
        parameter,
        required=required,
        default=default,
        show_default=default is not None,
        help=f"{text}.",
    )


PROBLEM = problem_option(required=True)
ANY_PROBLEM = problem_option()

MODELS = click.option("--model", "models", multiple=True, help="Use only this model; repeatable.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
FORCE = click.option("--force", is_flag=True, help="Replace an existing result.")
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
BACKEND = click.option(
    "--backend",
    default="transformers",
    show_default=True,
    help="Scoring backend; plugins in $TOKENMART_PLUGINS add others.",
)
