"""Work next to the computation: storing what is scored, and preparing the next model.

The next model's download runs in a process of its own, because the hub client's threads can't be
stopped, and the process must end immediately on a signal. Tokenising runs in a thread: tokenizers
work without the interpreter's lock. Weights are neither read nor converted, so memory has one
model's only. A failure here isn't reported: it is repeated, or not, when the model is due.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from extract.planning.cost import checked_memory
from extract.planning.plan import Document, ModelPlan, Selection, plan_model
from extract.tokenization import TokenizedDocument
from warehouse.child_process import inherited, python_module
from warehouse.paths import Workspace, find_workspace
from warehouse.problem.models import ModelSpec
from warehouse.sources.place import Place

FREE_DISK = 5 * 2**30
"""Bytes that a download leaves for the rows of the model that computes."""

POLL_SECONDS = 0.2


class Background:
    """Runs jobs in order in one thread, at most one waiting; leaving the block waits for all.

    A job's exception is raised by the next `check`, `finish`, `submit` or the end of the block.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "store")
        self._last: Future[None] | None = None

    def __enter__(self) -> Background:
        return self

    def check(self) -> None:
        """Raise what a finished job raised, without waiting for a running one."""
        if self._last is not None and self._last.done():
            self.finish()

    def submit(self, job: Callable[[], None]) -> None:
        """Wait for the job before, then start this one."""
        self.finish()
        self._last = self._pool.submit(job)

    def finish(self) -> None:
        """Wait for the running job."""
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            # also after an interrupt: a unit that is computed gets stored
            self._pool.shutdown(wait=True)


class Prefetch:
    """Prepares the model after the one that computes, never more than that one.

    Args:
        selection, documents, since: as for `plan_model`.
        longest: tokens of the longest document; a model too large for the device is left alone.
    """

    def __init__(
        self,
        selection: Selection,
        documents: Sequence[Document],
        longest: int,
        since: str | None = None,
    ) -> None:
        self.selection, self.documents = selection, documents
        self.longest, self.since = longest, since
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._tokens: dict[tuple[str, int], TokenizedDocument] = {}

    def __enter__(self) -> Prefetch:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            # time to stop a download; hashing of local weights is left to the interpreter's end
            self._thread.join(10 * POLL_SECONDS)

    def begin_after(self, spec: ModelSpec) -> None:
        """Start on the model whose turn comes after this one's."""
        self._wait()
        self._tokens.clear()
        following = self.selection.models[self.selection.models.index(spec) + 1 :][:1]
        if following:
            self._thread = threading.Thread(
                target=self._prepare, args=following, name="prefetch", daemon=True
            )
            self._thread.start()

    def plan(self, spec: ModelSpec) -> ModelPlan:
        """The plan of a model whose turn has come, once its preparation has ended.

        Raises:
            TokenmartError, StorageError: see `plan_model`.
        """
        self._wait()
        return plan_model(self.selection, spec, self.documents, self.since)

    def tokenize(self, plan: ModelPlan, document: Document) -> TokenizedDocument:
        """A document in a model's tokens: those prepared, else made now.

        Raises:
            TokenmartError: see `ModelPlan.tokenize`.
        """
        prepared = self._tokens.pop((plan.spec.full_id, document.doc_id), None)
        return plan.tokenize(document) if prepared is None else prepared

    def _wait(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _prepare(self, spec: ModelSpec) -> None:
        try:
            if not self._is_loadable(spec):
                return
            plan = plan_model(self.selection, spec, self.documents, self.since)
        except Exception:  # reported when this model is due, whatever the error is
            return
        for task in plan.tasks:
            if self._stop.is_set():
                return
            try:
                tokens = plan.tokenize(task.document)
            except Exception:  # reported when this model is due, too
                continue
            self._tokens[spec.full_id, task.document.doc_id] = tokens

    def _is_loadable(self, spec: ModelSpec) -> bool:
        """Whether a model's files are here in the form that is loaded; missing ones are fetched."""
        workspace = self.selection.workspace
        place = Place(workspace, self.selection.problem.name)
        here = spec.present(place)
        if here is None and spec.source.on_demand:
            checked_memory(self.selection, spec, self.longest)
            if has_room(spec, workspace):
                self._fetch(spec)
                here = spec.present(place)
        # other weights are converted first, which takes their memory
        return here is not None and here.is_dir() and any(here.glob("*.safetensors"))

    def _fetch(self, spec: ModelSpec) -> None:
        """Locate a model in a process of its own, which ends with this one, however that ends."""
        job = {"spec": spec.model_dump(mode="json"), "problem": self.selection.problem.name}
        child = subprocess.Popen(
            python_module("extract.background"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**inherited(), **self.selection.workspace.environment()},
            start_new_session=True,  # Ctrl-C is for us; the child is stopped below
        )
        assert child.stdin is not None
        with child, child.stdin:
            try:
                child.stdin.write(json.dumps(job).encode() + b"\n")
                child.stdin.flush()
                while child.poll() is None:
                    if self._stop.wait(POLL_SECONDS):
                        child.kill()
            except BrokenPipeError:
                child.kill()


def has_room(spec: ModelSpec, workspace: Workspace) -> bool:
    """Whether the disks have space for a model, at 4 bytes a weight, and for another's rows."""
    from huggingface_hub.constants import HF_HUB_CACHE

    needed = 4 * (spec.parameters or 0) + FREE_DISK
    for folder in (workspace.cache, Path(HF_HUB_CACHE)):
        there = next(each for each in (folder, *folder.parents) if each.exists())
        if shutil.disk_usage(there).free < needed:
            return False
    return True


def fetch_as_child() -> None:
    """Fetch the model that standard input names; end when its other end is closed.

    Raises:
        TokenmartError: it can't be fetched.
    """
    job = json.loads(sys.stdin.buffer.readline())

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    ModelSpec.model_validate(job["spec"]).locate(Place(find_workspace(), job["problem"]))


if __name__ == "__main__":
    try:
        fetch_as_child()
    finally:
        os._exit(0)
