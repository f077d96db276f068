"""`tokenmart e2lm new`: write a task for lm-evaluation-harness that runs without changes."""

from __future__ import annotations

import csv
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from analysis.templates import environment
from plugins.benchmarks.refusal import refused
from warehouse.files import write_whole

Kind = Literal["multiple-choice", "cloze", "generation"]
KINDS: tuple[Kind, ...] = ("multiple-choice", "cloze", "generation")
METRIC = {
    "multiple-choice": "loglik_margin_mean",
    "cloze": "perplexity",
    "generation": "exact_match",
}
"""Metric of each kind of task for a submission."""

EXAMPLES = 18
"""Number of elements used as few-shot examples; the other 100 are the minimum number of items."""


@dataclass(frozen=True)
class WorkedExamples:
    """Few-shot examples before each question.

    count: number in a prompt. sampler: `first_n` uses the first ones of the file, `random` draws
    them for each question with the harness's few-shot seed. seed: selects the elements in the file.
    """

    count: int = 0
    sampler: Literal["first_n", "random"] = "first_n"
    seed: int = 0


_CHOICES = 4
_STRIDE = 7
"""Distances in the table of elements between the right choice and the wrong ones."""


def new_task(
    name: str, kind: Kind, folder: Path, examples: WorkedExamples | None = None
) -> list[Path]:
    """Write a task of 118 items, on the symbols of the chemical elements, to be replaced.

    Args:
        name: name of the task in the harness.
        kind: log-likelihoods of choices, log-likelihood of one answer, or generated text.
        folder: the task's own folder is created in this folder.
        examples: few-shot examples before each question; none by default. If there are some, 18 of
            the 118 elements are examples instead of items.

    Returns:
        The written files.

    Raises:
        TokenmartError: the name is not a valid task name, or the folder exists.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise refused(
            name,
            "not a valid task name; use lower-case letters, digits and underscores, such as "
            "element_symbols",
            "task-name",
        )
    place = folder / name
    if place.exists():
        raise refused(place, "there already; choose another name, or remove it", "there-already")
    pages = environment("plugins.benchmarks.e2lm", escape_html=False)
    given = examples or WorkedExamples()
    facts = {
        "task": name,
        "kind": kind,
        "module": f"{name}_items",
        "shots": given.count,
        "sampler": given.sampler,
        "seed": given.seed,
    }
    items, worked = _items(kind), []
    if given.count:
        drawn = random.Random(given.seed).sample(range(len(items)), EXAMPLES)
        worked = [items[place] for place in drawn]
        items = [item for place, item in enumerate(items) if place not in drawn]
    files = {
        place / f"{name}.yaml": pages.get_template("task.yaml.txt").render(facts),
        place / f"{facts['module']}.py": pages.get_template("task.py.txt").render(facts),
        **({place / "examples.jsonl": _lines(worked)} if worked else {}),
        place / "items.jsonl": _lines(items),
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
    if kind == "generation":
        return [
            {"question": f"Question: Which symbol has {name}?\nAnswer:", "answer": symbol}
            for symbol, name in elements
        ]
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
