"""The next model is made ready while this one computes; it fails, or stops, in its own turn."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
import yaml
from plugin_folders import write_plugin

from extract import background, devices
from extract.backends.transformers import Transformers
from extract.background import Prefetch, has_room
from extract.extraction import Extraction
from extract.planning.plan import Document, documents_of, select
from extract.scoring.engine import Engine
from extract.tokenization import DocumentTokenizer
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.models import ModelSpec
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.progress import no_progress

CHECKOUT = find_workspace(Path(__file__))

PLUGINS = {
    "weights": """
import os, shutil, time
from pathlib import Path
from typing import ClassVar, Literal
from warehouse.sources.place import Need
from warehouse.sources.weights import Located, WeightSource

class Shelf(WeightSource):
    kind: Literal["shelf"]
    on_demand: ClassVar[bool] = True
    stocked: Path
    endless: bool = False

    def present(self, full_id, place):
        folder = place.workspace.root / "shelf" / full_id
        return folder if folder.is_dir() else None

    def locate(self, full_id, place):
        folder = place.workspace.root / "shelf" / full_id
        if not folder.is_dir():
            told = place.workspace.root / f"fetching-{full_id.split('/')[1]}"
            told.write_text(str(os.getpid()))
            while self.endless:
                time.sleep(0.01)
            shutil.copytree(self.stocked, folder)
        return Located(folder, revision="2026-11")

    def need(self, full_id, place):
        return Need("models", full_id, True, str(self.stocked), "the shelf", "")
""",
    "backends": """
import os, time
from pathlib import Path
from extract.backends.backend import Backend

class Held(Backend):
    kind = "held"
    parameters, attention, prefixes, weights = 0, "none", "shared", "none"

    def load(self, loading):
        return self

    def check(self):
        pass

    def score(self, requests):
        while True:
            time.sleep(0.01)
""",
}


def selected(path: Path, workspace: Workspace) -> tuple[Any, list[Document]]:
    problem = load_problem(str(path), workspace)
    documents = documents_of(ensure_documents(problem, workspace), None)
    return select(problem, workspace, device="cpu", dtype="float32"), documents


def shelved(path: Path, workspace: Workspace, endless: bool) -> None:
    """The problem's models come from a shelf, a source that has to fetch them."""
    write_plugin(workspace.root / "plugins", **PLUGINS)
    raw = yaml.safe_load(path.read_text())
    for number, model in enumerate(raw["models"]):
        stocked = model["source"]["path"]
        model["source"] = {
            "kind": "shelf", "stocked": stocked, "endless": endless and number == 1,
        }  # fmt: skip
    path.write_text(yaml.safe_dump(raw))


def start(path: Path, workspace: Workspace, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tokenmart", "extract", "--problem", str(path)]
    return subprocess.Popen(
        [*command, "--device", "cpu", *options],
        cwd=CHECKOUT.root,
        env={**os.environ, "TOKENMART_PLUGINS": str(workspace.root / "plugins")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def fetching(process: subprocess.Popen[str], workspace: Workspace, name: str) -> int:
    """The process that fetches this model, once it does; fails when the run ends before."""
    while process.poll() is None:
        told = workspace.root / f"fetching-{name}"
        if told.exists() and told.read_text():
            return int(told.read_text())
        time.sleep(0.01)
    raise AssertionError(process.communicate()[0])


def test_documents_of_the_next_model_are_tokenised_in_a_thread_and_once(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    selection, documents = selected(tiny_problem(texts=3), workspace)
    encode, encoded = DocumentTokenizer.encode, Counter[tuple[bool, str]]()

    def counting(self: DocumentTokenizer, text: str) -> Any:
        encoded[self.bos is not None, threading.current_thread().name] += 1
        return encode(self, text)

    monkeypatch.setattr(DocumentTokenizer, "encode", counting)
    outcome = Extraction(selection, documents, no_progress).run()
    assert outcome.units == 24 and not outcome.failures
    # the first of the two models has a BOS
    assert encoded == {(True, "MainThread"): 3, (False, "prefetch"): 3}


def test_what_fails_ahead_is_tried_again_at_its_turn(
    workspace: Workspace, tiny_problem: Callable[..., Path], tmp_path: Path
) -> None:
    path = tiny_problem(texts=2)
    raw = yaml.safe_load(path.read_text())
    folder = Path(raw["models"][1]["source"]["path"])
    raw["models"][1]["source"]["path"] = str(tmp_path / "late")
    path.write_text(yaml.safe_dump(raw))
    selection, documents = selected(path, workspace)
    one, two = selection.models
    with Prefetch(selection, documents, 512) as work:
        work.begin_after(one)
        for thread in threading.enumerate():
            if thread.name == "prefetch":
                thread.join()
        shutil.copytree(folder, tmp_path / "late")
        assert len(work.plan(two).tasks) == 2
        work.begin_after(two)
    shutil.rmtree(tmp_path / "late")
    outcome = Extraction(selection, documents, no_progress).run()
    assert outcome.units == 8 and len(outcome.failures) == 1
    assert "late" in str(outcome.failures[0])


def test_a_model_is_fetched_ahead_by_a_process_of_its_own(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=2)
    shelved(path, workspace, endless=False)
    process = start(path, workspace)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "extracted 16 units" in output
    one, two = (int((workspace.root / f"fetching-{n}").read_text()) for n in ("one", "two"))
    assert one == process.pid != two


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_download_ahead_ends_with_the_run(
    how: signal.Signals, workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=2)
    shelved(path, workspace, endless=True)
    process = start(path, workspace, "--backend", "held")
    child = psutil.Process(fetching(process, workspace, "two"))
    assert child.pid != process.pid
    process.send_signal(how)
    output, _ = process.communicate()
    assert process.returncode != 0 and "Traceback" not in output, output
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)


def test_models_survive_the_way_to_the_process_that_fetches_them() -> None:
    for name in ("no4k", "minilong"):
        for spec in load_problem(name, CHECKOUT).models:
            assert ModelSpec.model_validate(spec.model_dump(mode="json")) == spec


def test_a_download_ahead_leaves_room_on_the_disk(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load_problem("no4k", CHECKOUT).model("Qwen/Qwen2-7B-Instruct")
    assert spec.parameters is not None
    needed = 4 * spec.parameters + background.FREE_DISK
    for free, fits in ((needed, True), (needed - 1, False)):
        usage = SimpleNamespace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, usage=usage: usage)
        assert has_room(spec, workspace) is fits


def test_a_model_is_gone_before_the_next_one_loads_also_when_it_failed(
    workspace: Workspace, tiny_problem: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_problem(texts=2)
    raw = yaml.safe_load(path.read_text())
    raw["models"].append({**raw["models"][0], "full_id": "tiny/three"})
    path.write_text(yaml.safe_dump(raw))
    selection, documents = selected(path, workspace)
    load, seen = Transformers.load, list[weakref.ref[Any]]()

    def watched(self: Transformers, loading: Any) -> Any:
        assert [each() for each in seen] == [None] * len(seen)
        scorer: Any = load(self, loading)
        seen.append(weakref.ref(scorer.model))
        return scorer

    monkeypatch.setattr(Transformers, "load", watched)
    monkeypatch.setattr(Engine, "_score", failing_score(Engine._score, seen))
    outcome = Extraction(selection, documents, no_progress).run()
    assert len(seen) == 3 and outcome.failures and outcome.units == 16


def failing_score(score: Any, seen: list[Any]) -> Callable[..., Any]:
    """The engine's own scoring, but that the first model loaded never finds enough memory."""

    def scored(self: Engine, requests: Any) -> Any:
        if len(seen) == 1:
            raise torch.OutOfMemoryError("out of memory")
        return score(self, requests)

    return scored


def test_memory_that_is_not_released_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    taken = [0, 3 * 2**30]
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda number: taken[number])
    with pytest.warns(RuntimeWarning, match=r"GPU 1: 3\.0 GiB"):
        devices.release_memory()
    taken[1] = 2**20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        devices.release_memory()
