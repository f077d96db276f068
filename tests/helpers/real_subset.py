"""A small part of minilong: real checkpoints on the first tokens of a few of its documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from warehouse.paths import find_workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents

MODELS = ("smollm2-135m", "gemma3-270m", "smollm2-135m-window-512")
"""Two checkpoints, two tokenizers and an intervention."""
TOKENS = 1_200
PROBES = [
    {"kind": "full"},
    {"kind": "window", "name": "window_256", "context": 256, "stride": 256},
    {
        "kind": "retrieval",
        "excerpts": 4,
        "excerpt_tokens": 24,
        "answer_tokens": 16,
        "min_gap": 128,
        "seed": 0,
    },
]

OPTIONS = [
    *("--device", "cpu", "--dtype", "float32", "--max-tokens", str(TOKENS)),
    *(word for model in MODELS for word in ("--model", model)),
]
"""Of `tokenmart extract`."""


def write_subset(
    folder: Path,
    documents: tuple[int, ...],
    probes: Sequence[dict[str, Any]] = PROBES,
    compare: Sequence[tuple[str, str]] = (),
) -> Path:
    """A problem file, and next to it a data folder that shares the checkout's downloads.

    Args:
        folder: gets `minilong.yml` and `data`.
        documents: positions among those of minilong.
        probes: of the problem file.
        compare: pairs of conditions that it declares.
    """
    checkout = find_workspace(Path(__file__))
    (folder / "data").mkdir()
    checkout.cache.mkdir(parents=True, exist_ok=True)
    (folder / "data" / "cache").symlink_to(checkout.cache)
    texts = ensure_documents(load_problem("minilong", checkout), checkout)["text"].to_pylist()
    (folder / "texts.json").write_text(json.dumps([texts[number] for number in documents]))
    problem = yaml.safe_load((checkout.problems / "minilong.yml").read_text(encoding="utf-8"))
    problem["documents"] = {"kind": "json", "path": str(folder / "texts.json")}
    problem["probes"] = list(probes)
    problem["compare"] = [list(pair) for pair in compare]
    path = folder / "minilong.yml"
    path.write_text(yaml.safe_dump(problem), encoding="utf-8")
    return path
