"""Convert the CSV of the 2024 merging competition's kit to tasks.

A row of the kit's CSV has `id`, `input`, `eval_type` (multiple_choice or generation),
`answer_choices` (a Python list of texts) and `target`: the index of the right choice, or the text.
Format: github.com/llm-merging/LLM-Merging, c260fc5 (MIT).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plugins.merging.task_files import CHOICE, write_task
from warehouse.errors import TokenmartError
from warehouse.table_file import read_rows

MOST_TOKENS = 64
"""Tokens of a generated answer, as in the kit's `llama_avg`."""

TEXT: dict[str, Any] = {
    "output_type": "generate_until",
    "doc_to_text": "{{prompt}}",
    "doc_to_target": "{{answer}}",
    "generation_kwargs": {"until": [], "max_gen_toks": MOST_TOKENS, "do_sample": False},
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
}
"""Rows have `prompt` and `answer`."""

FORMS = {"multiple_choice": ("choice", CHOICE), "generation": ("text", TEXT)}
"""Kind of item → end of its task's name, and the task's form."""

Text = Annotated[str, Field(min_length=1)]


class KitItem(BaseModel):
    """A row of the kit's CSV; `choices` is empty for a generation.

    target: index of the right choice, or the text.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: Text
    prompt: str = Field(alias="input")
    kind: Literal["multiple_choice", "generation"] = Field(alias="eval_type")
    choices: tuple[str, ...] = Field(default=(), alias="answer_choices")
    target: str

    @model_validator(mode="before")
    @classmethod
    def _read_choices(cls, row: dict[str, Any]) -> dict[str, Any]:
        if row.get("eval_type") != "multiple_choice":
            return {name: value for name, value in row.items() if name != "answer_choices"}
        try:
            choices = ast.literal_eval(row.get("answer_choices", ""))
        except (ValueError, SyntaxError) as error:
            raise ValueError("answer_choices is no Python list of texts") from error
        if not isinstance(choices, list) or len(choices) < 2:
            raise ValueError("answer_choices is no list of at least two texts")
        if row.get("target") not in list(map(str, range(len(choices)))):
            raise ValueError(f"target {row.get('target')!r} is no index of a choice")
        return {**row, "answer_choices": tuple(map(str, choices))}

    def task_row(self) -> dict[str, Any]:
        """The item as a row of its task."""
        if self.choices:
            answer = {"choices": list(self.choices), "gold": int(self.target)}
        else:
            answer = {"answer": self.target}
        return {"id": self.id, "prompt": self.prompt, **answer}


def write_kit_tasks(path: Path, folder: Path) -> list[str]:
    """Write a CSV of the kit as tasks of lm-evaluation-harness, one for each kind of item.

    Args:
        path: the CSV.
        folder: where YAML, items and loader are written.

    Returns:
        The names of the tasks.

    Raises:
        TokenmartError: the CSV can't be read, a row is wrong, it has no row (`no-rows`), or an id
            is there twice (`repeated`).
        StorageError: the folder can't be written.
    """
    items = read_rows(path, KitItem)
    if not items:
        raise TokenmartError(f"{path}: contains no row", code="no-rows", where=path)
    seen: dict[str, int] = {}
    for row, item in enumerate(items, start=1):
        if (first := seen.setdefault(item.id, row)) != row:
            raise TokenmartError(
                f"{path}: row {row}: id {item.id!r} is that of row {first}; write each once",
                code="repeated",
                where=f"{path}: row {row}: id",
            )
    stem = re.sub("[^a-z0-9]+", "_", path.stem.lower()).strip("_") or "kit"
    names = []
    for kind, (ending, form) in FORMS.items():
        rows = [item.task_row() for item in items if item.kind == kind]
        if rows:
            write_task(folder, f"{stem}_{ending}", form, rows)
            names.append(f"{stem}_{ending}")
    return names
