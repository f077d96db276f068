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
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plugins.merging.task_files import CHOICE as CHOICE_FORM
from plugins.merging.task_files import write_task
from warehouse.errors import TokenmartError
from warehouse.files import write_whole
from warehouse.table_file import read_rows
from warehouse.terminal import listed

CHOICE, TEXT = "multiple_choice", "generation"
ENDINGS = {CHOICE: "choice", TEXT: "text"}

_NAMES = re.compile(r"[^a-z0-9]+")
_MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN",
            "None", "n/a", "nan", "null"}  # fmt: skip
"""Texts that pandas reads as missing values, unless it is told not to."""

Text = Annotated[str, Field(min_length=1)]


class KitItem(BaseModel):
    """A row of the kit's CSV; `choices` is empty for a generation.

    target: index of the right choice, or the text; None if the file has none.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Text
    prompt: str = Field(alias="input")
    kind: Literal["multiple_choice", "generation"] = Field(alias="eval_type")
    choices: tuple[str, ...] = Field(default=(), alias="answer_choices")
    target: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_choices(cls, row: dict[str, Any]) -> dict[str, Any]:
        if row.get("eval_type") != CHOICE:
            return {name: value for name, value in row.items() if name != "answer_choices"}
        try:
            choices = ast.literal_eval(row.get("answer_choices", ""))
        except (ValueError, SyntaxError) as error:
            raise ValueError("answer_choices is no Python list of texts") from error
        if not isinstance(choices, list) or len(choices) < 2:
            raise ValueError("answer_choices is no list of at least two texts")
        if row.get("target") not in (None, *map(str, range(len(choices)))):
            raise ValueError(f"target {row['target']!r} is no index of a choice")
        return {**row, "answer_choices": tuple(map(str, choices))}


class Prediction(BaseModel):
    """A row of submission.csv."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Text
    prediction: str = ""
    dummy_field: Literal["0"]


def read_kit(path: Path) -> list[KitItem]:
    """The rows of a CSV of the kit.

    Raises:
        TokenmartError: it can't be read, has no row, or a row is wrong.
    """
    items = read_rows(path, KitItem)
    if not items:
        raise TokenmartError(f"{path}: contains no row", code="no-rows", where=path)
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
            "run the same command again",
            code="no-prediction",
            where=missing[0],
        )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(
        [tuple(Prediction.model_fields), *((item.id, predictions[item.id], 0) for item in items)]
    )
    write_whole(out, text.getvalue())
    return check_submission(out, items)


def check_submission(path: Path, items: Sequence[KitItem]) -> list[str]:
    """Check a submission.csv against the kit's CSV; returns notes on rows that the site may refuse.

    Raises:
        TokenmartError: columns differ (code of pydantic), ids are missing, unknown or duplicate
            (`missing-ids`, `unknown-ids`, `repeated-id`), or an index is not one of an item's
            choices (`wrong-index`).
    """
    rows = read_rows(path, Prediction)
    _refuse_twice(path, [row.id for row in rows])
    found = {row.id: row.prediction for row in rows}
    known = {item.id: item for item in items}
    if not any(found.values()):
        raise TokenmartError(f"{path}: contains no prediction", code="no-prediction", where=path)
    for code, ids in (
        ("missing-ids", [name for name in known if name not in found]),
        ("unknown-ids", [name for name in found if name not in known]),
    ):
        if ids:
            raise TokenmartError(
                f"{path}: {code.replace('-', ' ')}: {listed(ids, 5)}", code=code, where=path
            )
    for name, prediction in found.items():
        choices = known[name].choices
        if choices and prediction not in map(str, range(len(choices))):
            raise TokenmartError(
                f"{path}: id {name}: prediction is {prediction!r}, expected the index of a choice, "
                f"0 to {len(choices) - 1}",
                code="wrong-index",
                where=f"{path}: id {name}",
            )
    absent = [name for name, text in found.items() if text.strip() in _MISSING]
    if not absent:
        return []
    return [
        f"predictions of {listed(absent, 5)} are empty or words such as NA and None; a site that "
        "reads the file with pandas takes them for missing values"
    ]


def _refuse_twice(path: Path, ids: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for number, name in enumerate(ids, start=1):
        if (first := seen.setdefault(name, number)) != number:
            raise TokenmartError(
                f"{path}: rows {first} and {number} both have the id {name}; remove one",
                code="repeated-id",
                where=f"{path}: row {number}",
            )
