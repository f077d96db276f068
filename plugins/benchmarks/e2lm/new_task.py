"""`tokenmart e2lm new`: write a task for lm-evaluation-harness that runs without changes."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any, Literal

import click

from warehouse.options import FILE

Kind = Literal["multiple-choice", "cloze"]
KINDS: tuple[Kind, ...] = ("multiple-choice", "cloze")
METRIC = {"multiple-choice": "loglik_margin_mean", "cloze": "perplexity"}
"""Metric of each kind of task for a submission."""

EXAMPLES = 18
"""Number of elements used as few-shot examples; the other 100 are the minimum number of items."""

_CHOICES = 4
_STRIDE = 7
"""Distances in the table of elements between the right choice and the wrong ones."""


@click.command()
@click.argument("task")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="multiple-choice",
    show_default=True,
    help="Kind of task: log-likelihoods of choices, or log-likelihood of one answer.",
)
@click.option(
    "--folder",
    type=FILE,
    default=".",
    show_default=True,
    help="Create the task's folder in this folder.",
)
@click.option(
    "--num-fewshot",
    "shots",
    type=click.IntRange(0, EXAMPLES - 2),
    default=0,
    show_default=True,
    help="Number of few-shot examples before each question, the first ones of examples.jsonl.",
)
def new(task: str, kind: Kind, folder: Path, shots: int) -> None:
    """Write a task for the harness that runs without changes.

    Its 118 items ask for chemical elements. Replace them with your own, one JSON object per line.
    With few-shot examples, 18 of them are in examples.jsonl instead.

    \b
    tokenmart e2lm new element_symbols --kind multiple-choice
    tokenmart e2lm new five_shots --num-fewshot 5
    """
    for path in new_task(task, kind, folder, shots):
        click.echo(f"written {path}")
    click.echo(
        f"try it: tokenmart eval --problem minilong --model smollm2-135m --tasks {task} --limit 20 "
        f"--include-path {shlex.quote(str(folder / task))}"
    )


def new_task(name: str, kind: Kind, folder: Path, shots: int = 0) -> list[Path]:
    """Write a task of 118 items, on the symbols of the chemical elements, to be replaced.

    Args:
        name: name of the task in the harness.
        kind: log-likelihoods of choices, or log-likelihood of one answer.
        folder: the task's own folder is created in this folder.
        shots: number of few-shot examples before each question. If there are some, the first 18 of
            the elements are examples instead of items.

    Returns:
        The written files.

    Raises:
        TokenmartError: the name is not a valid task name, or the folder exists.
    """
    from analysis.templates import environment
    from plugins.benchmarks.refusal import refused
    from warehouse.files import write_whole

    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        what = "not a valid task name; use lower-case letters, digits and underscores"
        raise refused(name, what, "task-name")
    place = folder / name
    if place.exists():
        raise refused(place, "there already; choose another name, or remove it", "there-already")
    pages = environment("plugins.benchmarks.e2lm", escape_html=False)
    facts = {"task": name, "kind": kind, "module": f"{name}_items", "shots": shots}
    items = _items(kind)
    first = EXAMPLES if shots else 0
    files = {
        place / f"{name}.yaml": pages.get_template("task.yaml.txt").render(facts),
        place / f"{facts['module']}.py": pages.get_template("task.py.txt").render(facts),
        **({place / "examples.jsonl": _lines(items[:first])} if shots else {}),
        place / "items.jsonl": _lines(items[first:]),
    }
    for path, text in files.items():
        write_whole(path, text)
    return list(files)


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _items(kind: Kind) -> list[dict[str, Any]]:
    table = Path(__file__).parent / "templates" / "elements.csv"
    with table.open(encoding="utf-8", newline="") as file:
        elements = [(row["symbol"], row["name"]) for row in csv.DictReader(file)]
    asked = "The chemical element with the symbol {} is called"
    if kind == "cloze":
        return [{"question": asked.format(symbol), "answer": name} for symbol, name in elements]
    items = []
    for place, (symbol, _) in enumerate(elements):
        gold = place % _CHOICES
        choices = [
            elements[(place + _STRIDE * (number - gold)) % len(elements)][1]
            for number in range(_CHOICES)
        ]
        items.append({"question": asked.format(symbol), "choices": choices, "gold": gold})
    return items
