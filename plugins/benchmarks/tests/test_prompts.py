"""Prompts as a model reads them: notes on what nobody wants, and conditions named by their text."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plugins.benchmarks.e2lm.harness_check import prompt_notes
from plugins.benchmarks.harness.chat import chat_of
from plugins.benchmarks.harness.item_rows import item_rows
from plugins.benchmarks.harness.stored_items import store_items
from plugins.benchmarks.harness.tasks import EvalTask, in_chat, load_tasks_and_groups
from warehouse.errors import TokenmartError

pytest.importorskip("lm_eval")

LOADER = """
def load(**_):
    from datasets import Dataset

    rows = [{"prompt": f"Is {n} even?", "gold": 1 - n % 2, "text": str(n % 2)} for n in range(9)]
    splits = {"test": rows[:6], "other": rows[6:]}
    return {name: Dataset.from_list(each) for name, each in splits.items()}
"""
YAML = """
task: even
custom_dataset: !function even_items.load
test_split: test
output_type: multiple_choice
doc_to_text: "{{prompt}}"
doc_to_choice: ["no", "yes"]
doc_to_target: gold
metric_list: [{metric: acc}]
"""
TEXT = '"{{prompt}}"'
Made = Callable[..., EvalTask]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """The task with another text of the prompt, more lines of YAML, and few-shot examples."""

    def load(text: str = TEXT, more: str = "", shots: int | None = None) -> EvalTask:
        (tmp_path / "even_items.py").write_text(LOADER)
        (tmp_path / "even.yaml").write_text(YAML.replace(TEXT, text) + more)
        ((task,), _) = load_tasks_and_groups(["even"], [tmp_path], shots=shots)
        return task

    return load


@pytest.mark.parametrize(
    ("text", "more", "spaced"),
    [
        (TEXT, "", 0),
        ('"{{prompt}} "', "", 6),
        ('"{{prompt}} "', "target_delimiter: ''\n", 0),
        ('"{{prompt}}\\t"', "", 6),
        ('"{% if gold %}{{prompt}} {% else %}{{prompt}}{% endif %}"', "", 3),
    ],
)
def test_a_space_before_the_delimiter_is_noted_once(text, more, spaced, made):
    task = made(text, more)
    notes = prompt_notes(task.task, task.shots)
    assert [note.split(" ")[0] for note in notes] == [str(spaced)] * (spaced > 0)
    assert prompt_notes(task.task, task.shots, in_chat=True) == []


def test_a_metric_that_the_harness_lacks_is_named(made):
    """With an aggregation its task is loaded, and there is no value of it."""
    with pytest.raises(TokenmartError, match="metric_list: bpb ") as caught:
        made(more="metric_list: [{metric: acc}, {metric: bpb}]\n")
    assert caught.value.code == "unusable-task"
    known = "{aggregation: mean, higher_is_better: true, metric: "
    task = made(more=f"metric_list: [{known}acc}}, {known}bpb}}]\n")
    (note,) = prompt_notes(task.task, 0)
    assert note.startswith("metric_list: bpb ")
    own = made(more=f"metric_list: [{known}bpb}}]\nprocess_results: !function even_items.load\n")
    assert prompt_notes(own.task, 0) == []


@pytest.mark.parametrize(("split", "both"), [("test", 6), ("other", 0)])
def test_few_shot_examples_that_are_scored_are_noted(split, both, made):
    task = made(more=f"fewshot_split: {split}\n", shots=2)
    assert task.shots == 2
    notes = prompt_notes(task.task, task.shots)
    assert [note.split(" ")[0] for note in notes] == [str(both)] * (both > 0)
    assert prompt_notes(task.task, 0) == []


def test_a_chat_s_condition_is_that_of_its_prompts(made, tiny_checkpoint, tmp_path):
    """One template writes another BOS for each model, and one writes the time."""
    from transformers import AutoTokenizer

    folder = shutil.copytree(tiny_checkpoint(), tmp_path / "talks")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    task = made()

    def condition(template: str, **tokens: Any) -> tuple[str, list[str]]:
        tokenizer.chat_template = template + "{{ messages[0].content }}"
        for name, value in tokens.items():
            setattr(tokenizer, name, value)
        chat = chat_of("tiny", tokenizer)
        return in_chat(task, chat, None).condition, chat.notes

    plain = condition("{{ bos_token }}")
    assert plain == condition("{% if true %}{{ bos_token }}{% endif %}") and plain[1] == []
    assert condition("{{ bos_token }}", bos_token="<start>")[0] != plain[0]
    first, second = (condition("{{ strftime_now('%f') }}") for _ in range(2))
    assert first[0] != second[0] and len(first[1]) == 1


def test_columns_that_are_chosen_are_named_when_they_are_replaced(made, workspace):
    task = made()
    rows = item_rows(task)
    assert store_items(workspace, "p", task.condition, rows) == []
    assert store_items(workspace, "p", task.condition, rows) == []
    other = item_rows(task, cluster="text")
    assert store_items(workspace, "p", task.condition, other) == ["cluster"]
    other = item_rows(task, "text", "text")
    assert store_items(workspace, "p", task.condition, other) == ["subject"]
    edited = replace(task, units=made('"{{prompt}} Say"').units)
    assert store_items(workspace, "p", task.condition, item_rows(edited)) == []
