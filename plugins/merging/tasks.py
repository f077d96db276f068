"""Write generated items as tasks of lm-evaluation-harness, open or hidden."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from plugins.merging.leaks import FEWEST_LETTERS
from plugins.merging.texts import SKILLS, Item, take_items
from warehouse.errors import TokenmartError
from warehouse.files import storage_errors, write_whole

_CHOICE = """\
task: {task}
# in the form of the harness's own task `boolq`
custom_dataset: !function {module}.load
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: gold
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
"""
_ANSWER = """\
task: {task}
# the whole answer must be the model's first choice, token by token
custom_dataset: !function {module}.load
test_split: test
output_type: loglikelihood
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{' ' + answer}}}}"
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
  - {{metric: perplexity, aggregation: perplexity, higher_is_better: false}}
metadata: {{version: 1.0}}
"""
LOADER = '''\
"""The items beside this file."""

import json
from pathlib import Path


def load(**_):
    from datasets import Dataset

    file = Path(__file__).with_name("{task}.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {{"test": Dataset.from_list(rows)}}
'''


def validation_sets(count: int, seed: str) -> dict[str, list[Item]]:
    """Open items by skill, which participants may read.

    Raises:
        TokenmartError: a skill has fewer.
    """
    return {skill: take_items(skill, "validation", seed, count) for skill in SKILLS}


def hidden_sets(
    count: int, secret: str, overlap: float
) -> tuple[dict[str, list[Item]], dict[str, list[Item]]]:
    """Items of the leaderboard and of the final, by skill.

    Args:
        count: number of items per skill in each set.
        secret: random seed of the items; everyone who has it can draw the same items.
        overlap: share of the final's items that are also in the leaderboard.

    Raises:
        TokenmartError: the share is invalid, the secret is too short, or a skill has fewer items.
    """
    if not 0 <= overlap <= 1:
        raise TokenmartError(f"--overlap {overlap}: must be between 0 and 1")
    if len(secret) < 12:
        raise TokenmartError("the secret has fewer than 12 characters; draw a longer one")
    if sum(letter.isascii() and letter.isalnum() for letter in secret) < FEWEST_LETTERS:
        raise TokenmartError(
            f"the secret has fewer than {FEWEST_LETTERS} letters a-z or digits, by which a "
            "participant's folder is searched for it; draw another"
        )
    shared = round(count * overlap)
    leaderboard, final = {}, {}
    for skill in SKILLS:
        items = take_items(skill, "hidden", secret, 2 * count - shared)
        leaderboard[skill], final[skill] = items[:count], items[count - shared :]
    return leaderboard, final


def write_tasks(sets: dict[str, list[Item]], folder: Path, prefix: str) -> list[Path]:
    """Write a task for each skill: YAML, items as JSON lines, and a loader.

    Raises:
        StorageError: the folder can't be written.
    """
    written = []
    with storage_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for skill, items in sets.items():
        task = f"{prefix}_{skill}"
        form = _CHOICE if items[0].choices else _ANSWER
        files = {
            f"{task}.yaml": form.format(task=task, module=f"{task}_items"),
            f"{task}_items.py": LOADER.format(task=task),
            f"{task}.jsonl": "".join(json.dumps(_row(item)) + "\n" for item in items),
        }
        for name, text in files.items():
            write_whole(folder / name, text)
            written.append(folder / name)
    return written


def _row(item: Item) -> dict[str, object]:
    row: dict[str, object] = {"prompt": item.prompt, "answer": item.answer}
    if item.choices:
        row |= {"choices": list(item.choices), "gold": item.choices.index(item.answer)}
    return row


def write_hidden_round(name: str, sets: dict[str, list[Item]], folder: Path) -> Path:
    """Write the tasks of a hidden round and the problem file that names them; return that file.

    Raises:
        StorageError: the folder can't be written.
    """
    prefix = f"mini_{name}"
    write_tasks(sets, folder, prefix)
    tasks = [f"{prefix}_{skill}" for skill in sets]
    content = {"kind": "merge_round", "name": name, "weight": 1.0, "tasks": tasks}
    path = folder / f"{name}.yml"
    write_whole(path, yaml.safe_dump(content, sort_keys=False))
    return path
