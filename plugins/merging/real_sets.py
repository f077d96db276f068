"""Download the validation sets BoolQ and MAWPS from one pinned commit, and write them as tasks.

The files are `dataset/*/test.json` of github.com/AGI-Edgerunners/LLM-Adapters (data under ODC-By
1.0, code under Apache-2.0). They are kept in the cache and never ship with Tokenmart. The file of
BoolQ has only the questions, without the passages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plugins.merging.task_files import CHOICE, EXACT, write_task
from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sources.lock_file import DownloadError, download_json

COMMIT = "816657208af4db747803f87ba40a4c71383fed7a"
SOURCE = "AGI-Edgerunners/LLM-Adapters"
ADDRESS = f"https://raw.githubusercontent.com/{SOURCE}"
LICENCE = "ODC-By 1.0"

_QUESTION = re.compile(r"question: (?P<question>.+?)\s*(?:Answer format: true/false)?\s*$", re.S)


@dataclass(frozen=True)
class RealSet:
    """A file of the repository: its path in `dataset`, its hash, and its number of items."""

    path: str
    sha256: str
    items: int


SETS = {
    "boolq": RealSet(
        "boolq/test.json", "89df2397cbca81dc31adcc6f7f5b635821aa0565aafde46725b2b4bd39b4dfa9", 3270
    ),
    "mawps": RealSet(
        "mawps/test.json", "c1a708979cbf2b3df9ac4020baacf3e8e73fcf089e1de7dd1b305b810bfaa15f", 238
    ),
}


def write_real_sets(
    names: Sequence[str], count: int, seed: str, workspace: Workspace, out: Path
) -> list[str]:
    """Write real sets as tasks `real_NAME`, at most `count` items of each; a note on each set.

    Items are sorted by the md5 hash of seed and prompt, and the first ones are used, so a larger
    `count` adds items. Answers of word problems are written without a fraction of zero. Items whose
    answer has more than two decimals, and repeated items, are left out.

    Args:
        names: names of `SETS`.
        count: number of items of a set.
        seed: random seed.
        workspace: the checkout whose cache stores the downloads.
        out: folder of the tasks.

    Raises:
        DownloadError: there is no network, or a file differs from the pinned one.
        TokenmartError: the rows of a file differ from the expected ones.
        StorageError: the folder can't be written.
    """
    notes = []
    for name in names:
        rows = json.loads(_fetched(name, workspace).read_text(encoding="utf-8"))
        if len(rows) != SETS[name].items:
            raise TokenmartError(f"{name}: {len(rows)} items, expected {SETS[name].items}")
        items = {str(item["prompt"]): item for item in _items(name, rows)}
        drawn = sorted(items, key=lambda prompt: _place(seed, prompt))[:count]
        form = CHOICE if name == "boolq" else EXACT
        write_task(out, f"real_{name}", form, [items[prompt] for prompt in drawn])
        notes.append(
            f"real_{name}: {len(drawn)} of {len(rows)} items, {len(rows) - len(items)} repeated "
            f"or with more than two decimals ({LICENCE}; {SOURCE} at {COMMIT[:7]})"
        )
    return notes


def _fetched(name: str, workspace: Workspace) -> Path:
    """The set's file in the cache, downloaded if it is missing; its checksum is always verified."""
    wanted = SETS[name]
    path = workspace.cache / "real_sets" / COMMIT[:7] / f"{name}.json"
    if not path.is_file():
        address = f"{ADDRESS}/{COMMIT}/dataset/{wanted.path}"
        path.parent.mkdir(parents=True, exist_ok=True)
        download_json(address, path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    if sha256 != wanted.sha256:
        raise DownloadError(
            f"{path}: sha256 is {sha256[:12]}…, expected {wanted.sha256[:12]}…; delete the file "
            "and run the command again"
        )
    return path


def _items(name: str, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        answer = str(row["answer"]).strip()
        if name == "boolq":
            matched = _QUESTION.search(str(row["instruction"]))
            question = (matched["question"] if matched else str(row["instruction"])).strip()
            prompt = f"Question: {question}\nAnswer:"
            yield {"prompt": prompt, "choices": ["no", "yes"], "gold": int(answer == "true")}
            continue
        number = answer.removesuffix(".0")
        if len(number.partition(".")[2]) <= 2:
            prompt = f"Question: {str(row['instruction']).strip()}\nAnswer:"
            yield {"prompt": prompt, "answer": number}


def _place(seed: str, prompt: str) -> str:
    return hashlib.md5(f"{seed}\n{prompt}".encode()).hexdigest()
