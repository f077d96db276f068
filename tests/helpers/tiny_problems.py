"""Problems made of tiny random models, and the real checkpoints."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_models import PROBES, make_checkpoint, make_text

from warehouse.paths import Workspace, find_workspace


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function (architecture, bos, seed) → folder; each checkpoint is made once."""
    made: dict[tuple[str, bool, int], Path] = {}

    def make(architecture: str = "llama", bos: bool = True, seed: int = 0) -> Path:
        key = (architecture, bos, seed)
        if key not in made:
            made[key] = make_checkpoint(
                tmp_path_factory.mktemp(f"{architecture}-{bos}-{seed}"), architecture, bos, seed
            )
        return made[key]

    return make


@pytest.fixture
def tiny_problem(workspace: Workspace, tiny_checkpoint: Callable[..., Path]) -> Callable[..., Path]:
    """A function that writes a problem of tiny models; keyword arguments replace its sections."""

    def write(texts: int = 4, **sections: Any) -> Path:
        corpus = workspace.root / "data" / "corpus.json"
        corpus.write_text(json.dumps([make_text(seed) for seed in range(texts)]))
        raw = {
            "name": "tiny",
            "title": "Tiny random models",
            "documents": {"kind": "json", "path": "data/corpus.json"},
            "models": [
                {
                    "full_id": f"tiny/{name}",
                    "family": name,
                    "dtype": "float32",
                    "source": {"kind": "local", "path": str(tiny_checkpoint("llama", bos, seed))},
                }
                for name, bos, seed in (("one", True, 0), ("two", False, 1))
            ],
            "probes": PROBES,
            "target": {"kind": "file", "path": "results/target.json"},
            **sections,
        }
        path = workspace.problems / "tiny.yml"
        path.write_text(yaml.safe_dump(raw))
        return path

    return write


@pytest.fixture(scope="session")
def real_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace of its own that shares the checkout's cache of downloads and weights."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TOKENMART_HOME", "TOKENMART_DATA", "TOKENMART_DATABASE"):
            patch.delenv(name, raising=False)
        checkout = find_workspace(Path(__file__))
        data = tmp_path_factory.mktemp("real-data")
        checkout.cache.mkdir(parents=True, exist_ok=True)
        (data / "cache").symlink_to(checkout.cache)
        yield Workspace(checkout.root, data, data / "tokenmart.duckdb")
