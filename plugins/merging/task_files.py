"""Write items as tasks of lm-evaluation-harness: YAML, the items as JSON lines, and a loader."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from warehouse.files import storage_errors, write_whole

_ACC = {"metric": "acc", "aggregation": "mean", "higher_is_better": True}
CHOICE: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{prompt}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "gold",
    "metric_list": [_ACC],
}
"""Rows have `prompt`, `choices` and `gold`, the index of the right choice."""

EXACT: dict[str, Any] = {
    "output_type": "loglikelihood",
    "doc_to_text": "{{prompt}}",
    "doc_to_target": "{{' ' + answer}}",
    "metric_list": [_ACC],
}
"""Rows have `prompt` and `answer`, whose every token must be the model's top-1 token."""

_LOADER = '''\
"""The items, in the folder of this file."""

import json
from pathlib import Path


def load(**_):
    from datasets import Dataset

    file = Path(__file__).with_name("{task}.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {{"test": Dataset.from_list(rows)}}
'''


def write_task(
    folder: Path, task: str, form: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> None:
    """Write a task of this name; `form` has the harness's keys for requests and metrics.

    Raises:
        StorageError: the folder can't be written.
    """
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    # the harness's own tag, which PyYAML would quote
    head = f"task: {task}\ncustom_dataset: !function {task}_items.load\ntest_split: test\n"
    write_whole(folder / f"{task}.yaml", head + yaml.safe_dump(dict(form), sort_keys=False))
    write_whole(folder / f"{task}_items.py", _LOADER.format(task=task))
    write_whole(folder / f"{task}.jsonl", "".join(json.dumps(dict(row)) + "\n" for row in rows))
