"""`benchmarks/bench_gpu.py` in its tiny form on the processor: every part runs, wrong is said."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def bench_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import bench_gpu

    yield bench_gpu


@pytest.fixture
def gpu_correctness(bench_gpu: Any) -> Any:
    """What `bench_gpu` takes for its first part; its own script has put it on the path."""
    return sys.modules["gpu_correctness"]


def run(bench_gpu: Any, out: Path, *arguments: str) -> tuple[Any, dict[str, Any]]:
    tiny = ["--device", "cpu", "--tiny", "--out", str(out), *arguments]
    done = CliRunner().invoke(bench_gpu.main, tiny)
    return done, json.loads(out.read_text())


@pytest.mark.slow
def test_every_part_of_one_process_runs_and_finds_nothing_wrong(
    bench_gpu, gpu_correctness, tmp_path
):
    parts = ("correctness", "memory", "extraction", "speed")
    asked = [word for part in parts for word in ("--part", part)]
    done, found = run(bench_gpu, tmp_path / "found.json", *asked)
    assert done.exit_code == 0, done.output
    assert found["wrong"] == found["skipped"] == []
    rows = found["rows"]
    assert {row["part"] for row in rows} == set(parts)
    timed = {row["what"] for row in rows if row["seconds"] is not None}
    assert {"ours: full", "ours: window", "ours: retrieval", "LongPPL procedure"} <= timed
    # a mistake of the size that a wrong mask makes would be visible
    nats = {(row["model"], row["what"], row["dtype"]): row for row in rows}
    for probe in ("full", "window", "retrieval"):
        ours = nats["random/tiny", f"{probe}, ours", "float32"]
        changed = nats["random/tiny", f"{probe}, {gpu_correctness.CHANGED}", "float32"]
        assert ours["largest_nats"] < 1e-4 < 0.05 < changed["mean_nats"]


def test_a_wrong_engine_is_reported(bench_gpu, gpu_correctness, tmp_path, monkeypatch):
    right = gpu_correctness.score

    def shifted(engine: Any, conditions: Any, tokens: Any) -> Any:
        return [np.roll(each, 1) for each in right(engine, conditions, tokens)]

    monkeypatch.setattr(gpu_correctness, "score", shifted)
    done, found = run(bench_gpu, tmp_path / "found.json", "--part", "correctness")
    assert done.exit_code == 1
    assert found["wrong"]


def test_a_part_that_breaks_off_does_not_take_the_others_down(bench_gpu, tmp_path, monkeypatch):
    def broken(*_: Any) -> None:
        raise ValueError("no such thing\nat all")

    monkeypatch.setattr(bench_gpu, "correctness", broken)
    asked = ["--part", "correctness", "--part", "memory"]
    done, found = run(bench_gpu, tmp_path / "found.json", *asked)
    assert done.exit_code == 1 and [row["part"] for row in found["rows"]] == ["memory"]
    assert len(found["wrong"]) == 6  # two models, three probes
