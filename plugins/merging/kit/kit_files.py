"""Convert the CSV of the 2024 merging competition's kit to tasks, and write submission.csv.

A row of the kit's CSV has `id`, `input`, `eval_type` (multiple_choice or generation),
`answer_choices` (a Python list of texts) and, in validation sets, `target`: the index of the right
choice, or the text. A submission has `id,prediction,dummy_field`: the index of the chosen answer
or the generated text, and 0. Formats: github.com/llm-merging/LLM-Merging, c260fc5 (MIT).
"""

from __future__ import annotations

import ast
import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.merging.task_files import CHOICE as CHOICE_FORM
from plugins.merging.task_files import write_task
from warehouse.errors import TokenmartError
from warehouse.files import write_whole

COLUMNS = ("id", "input", "eval_type", "answer_choices")
HEADER = ("id", "prediction", "dummy_field")
CHOICE, TEXT = "multiple_choice", "generation"
ENDINGS = {CHOICE: "choice", TEXT: "text"}

_NAMES = re.compile(r"[^a-z0-9]+")
_MISSING = {"#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None",
            "n/a", "nan", "null"}  # fmt: skip
"""Texts that pandas reads as missing values, unless it is told not to."""

_SHOWN = 5


@dataclass(frozen=True)
class KitItem:
    """A row of the kit's CSV; `choices` is empty for a generation.

    target: index of the right choice, or the text; None if the file has none.
    """

    id: str
    prompt: str
    choices: tuple[str, ...]
    target: str | None

    @property
    def kind(self) -> str:
        """multiple_choice or generation."""
        return CHOICE if self.choices else TEXT


def read_kit(path: Path) -> list[KitItem]:
    """The rows of a CSV of the kit.

    Raises:
        TokenmartError: it can't be read, or a row is wrong; file, row, column and value.
    """
    rows = _rows(path, COLUMNS)
    items = [_item(path, number, row) for number, row in enumerate(rows, start=1)]
    _refuse_twice(path, [item.id for item in items])
    return items


def task_names(path: Path, items: Iterable[KitItem]) -> dict[str, str]:
    """Kind of item → the name of its task, after the file's name."""
    stem = _NAMES.sub("_", path.stem.lower()).strip("_") or "kit"
    kinds = {item.kind for item in items}
    return {kind: f"{stem}_{ending}" for kind, ending in ENDINGS.items() if kind in kinds}


def write_kit_tasks(path: Path, folder: Path, max_tokens: int) -> dict[str, str]:
    """Write a CSV of the kit as tasks of lm-evaluation-harness; kind of item → its task's name.

    Args:
        path: the CSV.
        folder: where YAML, items and loader are written.
        max_tokens: maximum number of generated tokens per item.

    Raises:
        TokenmartError: the CSV is invalid.
        StorageError: the folder can't be written.
    """
    items = read_kit(path)
    names = task_names(path, items)
    for kind, name in names.items():
        of_kind = [item for item in items if item.kind == kind]
        scored = all(item.target is not None for item in of_kind)
        write_task(folder, name, _form(kind, scored, max_tokens), map(_task_row, of_kind))
    return names


def _form(kind: str, scored: bool, max_tokens: int) -> dict[str, Any]:
    if kind == CHOICE:
        form, metric = dict(CHOICE_FORM), "acc"
    else:
        metric = "exact_match"
        form = {
            "output_type": "generate_until",
            "doc_to_text": "{{prompt}}",
            "doc_to_target": "{{answer}}",
            "generation_kwargs": {"until": [], "max_gen_toks": max_tokens, "do_sample": False},
        }
    # without right answers, only predictions can be written
    name = metric if scored else "bypass"
    form["metric_list"] = [{"metric": name, "aggregation": "mean", "higher_is_better": True}]
    return form


def _task_row(item: KitItem) -> dict[str, Any]:
    row: dict[str, Any] = {"id": item.id, "prompt": item.prompt}
    if item.kind == CHOICE:
        return row | {"choices": list(item.choices), "gold": int(item.target or 0)}
    return row | {"answer": item.target or ""}


def write_submission(
    out: Path, items: Sequence[KitItem], predictions: Mapping[str, str]
) -> list[str]:
    """Write submission.csv and check it; returns notes on rows that the competition's site may
    refuse.

    Args:
        out: the file.
        items: items of the kit's CSV, in order.
        predictions: id → index of a choice, or text.

    Raises:
        TokenmartError: an item has no prediction.
    """
    missing = [item.id for item in items if item.id not in predictions]
    if missing:
        raise TokenmartError(
            f"{len(missing)} of {len(items)} items have no prediction (first: id {missing[0]}); "
            "run the same command again"
        )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([HEADER, *((item.id, predictions[item.id], 0) for item in items)])
    write_whole(out, text.getvalue())
    return check_submission(out, items)


def check_submission(path: Path, items: Sequence[KitItem]) -> list[str]:
    """Check a submission.csv against the kit's CSV; returns notes on rows that the site may refuse.

    Raises:
        TokenmartError: columns differ, ids are missing, unknown or duplicate, or an index is not
            one of an item's choices.
    """
    rows = _rows(path, HEADER)
    _refuse_twice(path, [row["id"] for row in rows])
    found = {row["id"]: row for row in rows}
    known = {item.id for item in items}
    for what, ids in (
        ("missing", [item.id for item in items if item.id not in found]),
        ("not in the kit's file", [row["id"] for row in rows if row["id"] not in known]),
    ):
        if ids:
            raise TokenmartError(
                f"{path}: {len(ids)} ids are {what}: {', '.join(ids[:_SHOWN])}"
                f"{' …' if len(ids) > _SHOWN else ''}; correct them"
            )
    for number, row in enumerate(rows, start=1):
        if row["dummy_field"] != "0":
            raise TokenmartError(
                f"{path}: row {number}: dummy_field is {row['dummy_field']!r}, expected 0"
            )
    for item in items:
        said = found[item.id]["prediction"]
        wanted = range(len(item.choices))
        if item.kind == CHOICE and said not in {str(index) for index in wanted}:
            raise TokenmartError(
                f"{path}: id {item.id}: prediction is {said!r}, expected the index of a choice, 0 "
                f"to {len(item.choices) - 1}"
            )
    texts = {item.id: found[item.id]["prediction"].strip() for item in items}
    notes = []
    for what, ids in (
        ("empty", [name for name, text in texts.items() if not text]),
        ("words such as NA and None", [name for name, text in texts.items() if text in _MISSING]),
    ):
        if ids:
            notes.append(
                f"{len(ids)} predictions are {what} (first: id {ids[0]}); a site that reads the "
                "file with pandas takes them for missing values"
            )
    return notes


def _rows(path: Path, wanted: Sequence[str]) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            found = list(reader.fieldnames or ())
            rows = list(reader)
    except FileNotFoundError as error:
        raise TokenmartError(f"{path}: no such file; correct the path") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TokenmartError(f"{path}: can't be read ({error}); correct it") from error
    absent = [name for name in wanted if name not in found]
    if absent:
        raise TokenmartError(
            f"{path}: {'columns' if absent[1:] else 'column'} {', '.join(map(repr, absent))} "
            f"{'are' if absent[1:] else 'is'} missing, the file has "
            f"{', '.join(found) or 'none'}; add what is missing"
        )
    if not rows:
        raise TokenmartError(f"{path}: contains no row")
    for number, row in enumerate(rows, start=1):
        if None in row or None in row.values():
            raise TokenmartError(f"{path}: row {number}: has another number of cells; correct it")
    return rows


def _item(path: Path, number: int, row: Mapping[str, str]) -> KitItem:
    def wrong(column: str, wanted: str) -> TokenmartError:
        return TokenmartError(
            f"{path}: row {number}: {column} is {row[column][:80]!r}, expected {wanted}"
        )

    if not row["id"]:
        raise wrong("id", "an id")
    if row["eval_type"] not in ENDINGS:
        raise wrong("eval_type", " or ".join(ENDINGS))
    target = row.get("target") or None
    if row["eval_type"] == TEXT:
        return KitItem(row["id"], row["input"], (), target)
    try:
        choices = ast.literal_eval(row["answer_choices"])
    except (ValueError, SyntaxError) as error:
        raise wrong("answer_choices", "a list of texts") from error
    if not isinstance(choices, list) or len(choices) < 2:
        raise wrong("answer_choices", "a list of at least two texts")
    if target is not None and target not in {str(index) for index in range(len(choices))}:
        raise wrong("target", f"the index of a choice, 0 to {len(choices) - 1}")
    return KitItem(row["id"], row["input"], tuple(map(str, choices)), target)


def _refuse_twice(path: Path, ids: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for number, name in enumerate(ids, start=1):
        if name in seen:
            raise TokenmartError(
                f"{path}: rows {seen[name]} and {number} both have the id {name}; remove one"
            )
        seen[name] = number
