"""Running a campaign: what is there, what the rest takes, piece by piece, and a log of it all."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from extract.campaign.pieces import Kind, Piece, Rate, ordered, steps
from extract.failures import Failure
from extract.planning.cost import Work, document_lengths, estimate, work_of
from extract.planning.current import current_units
from extract.planning.devices import resolve_dtype
from extract.planning.model_size import model_size
from extract.planning.plan import Selection, documents_of
from extract.recall.contexts import Context, make_contexts
from extract.recall.items import asked_in
from extract.recall.measurement import measure_recall
from extract.recall.store import contexts_stored, items_path
from extract.run import Extraction
from warehouse.errors import StorageError, TokenmartError
from warehouse.files import storage_errors, write_whole
from warehouse.paths import Workspace
from warehouse.problem.recall_target import RecallTarget
from warehouse.problem.spec import Problem
from warehouse.progress import Progress
from warehouse.sources.fetch import ensure_documents
from warehouse.sources.place import Place
from warehouse.store.provenance import code_revision, processor_name, versions

CHARACTERS_PER_TOKEN = 3
"""Of questions, which are names and digits: fewer than of a text."""

SCHEMA = "tokenmart/campaign/1"


@dataclass(frozen=True)
class Done:
    """What one piece did: a line of the log."""

    kind: Kind
    upto: int
    seconds: float
    finished_at: str
    failures: int


class Campaign:
    """All models of a problem, its documents and its target, in pieces.

    Args:
        problem: with a target that is measured, or none.
        target: what to measure; None for documents alone.
        selection: which models, and how.
        workspace: where everything goes.
        documents: the last that is read, counted from 1; 0 for the target alone, None for all.
        skip: so many of the first are left out.
        document_step: documents of a piece.
        context_step: contexts of a piece.
    """

    def __init__(
        self,
        problem: Problem,
        target: RecallTarget | None,
        selection: Selection,
        workspace: Workspace,
        *,
        documents: int | None,
        skip: int = 0,
        document_step: int,
        context_step: int,
    ) -> None:
        self.problem = problem
        self.target = target
        self.selection = selection
        self.workspace = workspace
        self.corpus = ensure_documents(problem, workspace)
        there: int = self.corpus.num_rows
        self.documents = there if documents is None else min(documents, there)
        if 0 < self.documents <= skip:
            raise TokenmartError(
                f"--skip-documents {skip}: only {self.documents} are asked for, so none is left; "
                "skip fewer, or ask for more documents"
            )
        self.skip = min(skip, self.documents)
        self.order = ordered(
            [self.skip + count for count in steps(self.documents - self.skip, document_step)],
            steps(target.contexts, context_step) if target else [],
        )
        self.log = read_log(workspace, problem.name)
        self.rates: dict[Kind, Rate] = {}
        self.failures: list[Failure] = []
        # what failed in this run is not tried again by its next piece
        self.since = datetime.now(timezone.utc).isoformat(timespec="seconds")

    def pieces(self) -> list[Piece]:
        """All pieces with what is left of them, in the order in which they run."""
        done: dict[Kind, list[int]] = {
            "documents": self._documents_done(),
            "recall": self._contexts_done(),
        }
        before: dict[Kind, int] = {"documents": self.skip, "recall": 0}
        found = []
        for kind, upto in self.order:
            size = upto - before[kind]
            parts = [min(max(n - before[kind], 0), size) / size for n in done[kind]]
            left = 1 - sum(parts) / len(parts)
            found.append(Piece(kind, upto, left, left * size * self.rate(kind).seconds))
            before[kind] = upto
        return found

    def rate(self, kind: Kind) -> Rate:
        """What one document or context costs for all models: measured here, else reckoned."""
        if kind not in self.rates:
            self.rates[kind] = self._measured(kind) or self._reckoned(kind)
        return self.rates[kind]

    def run(self, piece: Piece, progress: Progress) -> Done:
        """Do what is left of a piece; what fails is kept in `failures` and stops nothing.

        Raises:
            StorageError: nothing more can be stored; what was finished is kept.
        """
        started, before = time.monotonic(), len(self.failures)
        run = self._read if piece.kind == "documents" else self._ask
        run(piece.upto, progress)
        seconds = time.monotonic() - started
        done = Done(
            piece.kind,
            piece.upto,
            round(seconds, 1),
            datetime.now(timezone.utc).isoformat(timespec="seconds"),
            len(self.failures) - before,
        )
        self._learn(piece, seconds)
        self.log["pieces"].append(asdict(done))
        write_log(self.workspace, self.problem.name, self.log)
        return done

    def _read(self, upto: int, progress: Progress) -> None:
        documents = documents_of(self.corpus, upto, self.selection.conditions)[self.skip :]
        run = Extraction(
            self.problem, self.selection, documents, self.workspace, progress, self.since
        )
        self.failures += [each for each in run.run().failures if each not in self.failures]

    def _ask(self, upto: int, progress: Progress) -> None:
        assert self.target is not None
        target = self.target.model_copy(update={"contexts": upto})
        outcome = measure_recall(self.problem, target, self.selection, self.workspace, progress)
        self.failures += outcome.failures

    def units(self, piece: Piece) -> int:
        """How often `run` reports progress for a piece."""
        models = len(self.selection.models)
        if piece.kind == "recall":
            return models
        return models * (piece.upto - self.skip) * len(self.selection.conditions)

    def _documents_done(self) -> list[int]:
        """Of each model, up to which document it has read all under all conditions."""
        table = self.corpus.slice(self.skip, self.documents - self.skip)
        numbers, hashes = table["doc_id"].to_pylist(), table["sha256"].to_pylist()
        documents = dict(zip(numbers, hashes, strict=True))
        found = []
        for spec in self.selection.models:
            finished = [
                {
                    unit.doc_id
                    for unit in current_units(
                        self.problem, self.selection, spec, condition, documents, self.workspace
                    )
                    if unit.status == "done"
                }
                for condition in self.selection.conditions
            ]
            both = set.intersection(*finished)
            missing = (place for place, number in enumerate(numbers) if number not in both)
            found.append(self.skip + next(missing, len(numbers)))
        return found

    def _contexts_done(self) -> list[int]:
        if self.target is None:
            return [0]
        paths = [
            items_path(self.problem, spec.model_id, self.workspace)
            for spec in self.selection.models
        ]
        tasks = {each.task for each in asked_in(self.target, self._contexts(self.target))}
        return [contexts_stored(path, tasks) for path in paths]

    def _contexts(self, target: RecallTarget) -> list[Context]:
        return make_contexts(target, target.filler.texts(Place(self.workspace)))

    def _learn(self, piece: Piece, seconds: float) -> None:
        """Measured from now on; a small rest says more about loading than about reading."""
        size = piece.upto - max(
            (upto for kind, upto in self.order if kind == piece.kind and upto < piece.upto),
            default=self.skip if piece.kind == "documents" else 0,
        )
        if piece.left > 0.5:
            cost = seconds / (piece.left * size)
            self.rates[piece.kind] = Rate(cost, "measured in the last piece")
            self.log["rates"][piece.kind] = {
                "seconds": round(cost, 1),
                "models": len(self.selection.models),
            }

    def _measured(self, kind: Kind) -> Rate | None:
        known = self.log["rates"].get(kind)
        if not known:
            return None
        share = len(self.selection.models) / known["models"]
        return Rate(known["seconds"] * share, "measured by an earlier run here")

    def _reckoned(self, kind: Kind) -> Rate:
        if kind == "documents":
            lengths, _ = document_lengths(self.problem, self.selection, self.workspace)
            lengths = lengths[self.skip : self.documents]
            work = work_of(lengths, self.selection.conditions)
            count = len(lengths)
        else:
            work, count = self._work_of_a_context(), 1
        seconds = 0.0
        for spec in self.selection.models:
            size = model_size(spec, self.workspace, problem=self.problem.name)
            if size is None:
                raise TokenmartError(
                    f"{spec.full_id}: its size is not known, so a budget can't be kept; give "
                    "`parameters` in the problem file"
                )
            dtype = resolve_dtype(spec, self.selection.dtype, self.selection.device)
            seconds += estimate(
                work, parameters=size.parameters, dtype=dtype, device=self.selection.device
            ).seconds
        return Rate(seconds / count, "reckoned from sizes; the first piece will tell")

    def _work_of_a_context(self) -> Work:
        assert self.target is not None
        one = self.target.model_copy(update={"contexts": 1})
        asked = asked_in(one, self._contexts(one))
        trunk = one.lengths[-1]
        sizes = [len(each.question.text) // CHARACTERS_PER_TOKEN for each in asked]
        pairs = trunk**2 / 2 + sum(
            size * each.length for size, each in zip(sizes, asked, strict=True)
        )
        return Work(trunk + sum(sizes), 0, pairs)


def log_path(workspace: Workspace, problem: str) -> Path:
    """The log of a problem's campaigns."""
    return workspace.data / "campaigns" / f"{problem}.json"


def read_log(workspace: Workspace, problem: str) -> dict[str, Any]:
    """Pieces that were run, and what they took; empty before the first.

    Raises:
        StorageError: the file can't be read.
    """
    path = log_path(workspace, problem)
    if not path.is_file():
        return {"schema": SCHEMA, "machine": {}, "rates": {}, "pieces": []}
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if found["schema"] != SCHEMA or not isinstance(found["pieces"], list):
            raise ValueError("another format")
        return {"machine": {}, "rates": {}} | found
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{path}: the log of earlier pieces can't be read ({error}); move it away: only times "
            "are lost"
        ) from error


def write_log(workspace: Workspace, problem: str, log: dict[str, Any]) -> None:
    """Write the log, with the machine and the code as they are now.

    Raises:
        StorageError: it can't be written.
    """
    path = log_path(workspace, problem)
    machine = {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "versions": versions(("tokenmart", "torch", "transformers")),
        **code_revision(),
    }
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({**log, "machine": machine}, indent=1) + "\n")


def until(
    campaign: Campaign,
    seconds: float | None,
    run_piece: Callable[[Piece], Done],
) -> Sequence[Done]:
    """Run pieces in their order as long as the next one fits the budget.

    Args:
        campaign: what is to be run.
        seconds: the budget; None for all pieces.
        run_piece: runs one, for instance under a progress bar.
    """
    started = time.monotonic()
    done: list[Done] = []
    for place in range(len(campaign.order)):
        piece = campaign.pieces()[place]
        if piece.left == 0:
            continue
        spent = time.monotonic() - started
        if seconds is not None and spent + piece.seconds > seconds:
            break
        done.append(run_piece(piece))
    return done
