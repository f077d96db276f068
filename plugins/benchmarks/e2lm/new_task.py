"""`tokenmart e2lm new`: a task for lm-evaluation-harness that runs as it is written."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any, Literal

from analysis.templates import environment
from warehouse.errors import TokenmartError
from warehouse.files import write_whole

Kind = Literal["multiple-choice", "cloze", "generation"]
KINDS: tuple[Kind, ...] = ("multiple-choice", "cloze", "generation")
METRIC = {
    "multiple-choice": "loglik_margin_mean",
    "cloze": "perplexity",
    "generation": "exact_match",
}
"""The metric of each kind that a submission may name."""

_CHOICES = 4
_STRIDE = 7
"""Wrong choices are elements this far apart in the table, the right one's place goes round."""


def new_task(name: str, kind: Kind, folder: Path) -> list[Path]:
    """Write a task of 118 items, on the symbols of the chemical elements, to be replaced.

    Args:
        name: of the task, as the harness will know it.
        kind: what is asked of a model: likelihoods of choices, of one answer, or a text.
        folder: where the task's own folder is made.

    Returns:
        The written files.

    Raises:
        TokenmartError: the name is not a valid task name, or there is something by this name.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise TokenmartError(
            f"{name!r} is not a valid task name; use lower-case letters, digits and underscores, "
            "such as element_symbols"
        )
    place = folder / name
    if place.exists():
        raise TokenmartError(f"{place}: there already; choose another name, or remove it")
    pages = environment("plugins.benchmarks.e2lm", escape_html=False)
    facts = {"task": name, "kind": kind, "module": f"{name}_items"}
    files = {
        place / f"{name}.yaml": pages.get_template("task.yaml.txt").render(facts),
        place / f"{facts['module']}.py": pages.get_template("task.py.txt").render(facts),
        place / "items.jsonl": "".join(
            json.dumps(item, ensure_ascii=False) + "\n" for item in _items(kind)
        ),
    }
    for path, text in files.items():
        write_whole(path, text)
    return list(files)


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
