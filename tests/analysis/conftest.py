"""A throw-away checkout with a made-up target. The real labels are never in the repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_up_marts import Marts, fill_minilong

from analysis import locked
from warehouse.paths import Workspace, find_workspace


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty checkout that $TOKENMART_HOME points at."""
    root = tmp_path / "checkout"
    (root / "dbt_project").mkdir(parents=True)
    (root / "dbt_project" / "dbt_project.yml").touch()
    monkeypatch.setenv("TOKENMART_HOME", str(root))
    monkeypatch.delenv("DBT_TARGET_PATH", raising=False)
    monkeypatch.delenv("TOKENMART_DATA", raising=False)
    monkeypatch.delenv("TOKENMART_DATABASE", raising=False)
    return find_workspace()


@pytest.fixture
def made_up_scores() -> dict[str, float]:
    """Model → a number drawn at random: correlates with nothing in the world."""
    generator = np.random.default_rng(20)
    return {model: round(float(generator.normal(50, 10)), 3) for model in locked.MODELS}


@pytest.fixture
def target(workspace: Workspace, made_up_scores: dict[str, float]) -> Path:
    """The locked path in the throw-away checkout, filled with the made-up scores."""
    path = workspace.root / locked.TARGET_PATH
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({model: {"overall": s} for model, s in made_up_scores.items()}))
    return path


@pytest.fixture
def write_json(tmp_path: Path) -> Callable[[Any], Path]:
    """Write a value as JSON into a fresh file."""
    counter = iter(range(1_000_000))

    def write(value: Any) -> Path:
        path = tmp_path / f"file{next(counter)}.json"
        path.write_text(json.dumps(value))
        return path

    return write


TEMPLATES = Path(__file__).parents[2] / "analysis" / "templates"


@pytest.fixture
def verify_schema() -> dict[str, Any]:
    """The JSON schema of the verifier's document."""
    schema: dict[str, Any] = json.loads((TEMPLATES / "verify_result.schema.json").read_text())
    return schema


@pytest.fixture
def marts(workspace: Workspace) -> Marts:
    """An empty warehouse with the mart tables and the shipped problem files."""
    return Marts(workspace)


@pytest.fixture
def minilong(marts: Marts) -> Marts:
    """`minilong` with a made-up target, a good metric, a bad one, perplexity and noise."""
    return fill_minilong(marts)
