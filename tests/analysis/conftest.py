"""A throw-away checkout with a made-up target. The real labels are never in the repository."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.ranking.cli import correlate
from analysis.submission import verifier as locked
from analysis.submission.cli import submit, verify
from warehouse.paths import Workspace


@pytest.fixture(autouse=True)
def _fewer_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands draw 100 times unless a test sets a number: only how long they take changes."""
    for command in (correlate, submit, verify):
        (resamples,) = (each for each in command.params if each.name == "resamples")
        monkeypatch.setattr(resamples, "default", 100)


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


@pytest.fixture
def closed_pipe() -> Iterator[Path]:
    """A pipe whose reader has gone, as `--out /dev/stdout | head -1` leaves it."""
    reader, writer = os.pipe()
    os.close(reader)
    yield Path(f"/dev/fd/{writer}")
    os.close(writer)


SCHEMA = Path(__file__).parents[2] / "analysis" / "submission" / "verify_result.schema.json"


@pytest.fixture
def verify_schema() -> dict[str, Any]:
    """The JSON schema of the verifier's document."""
    schema: dict[str, Any] = json.loads(SCHEMA.read_text())
    return schema
