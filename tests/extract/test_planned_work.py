"""Progress follows planned work, over models of other sizes and to its end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_runs import ok, run

from extract.extraction import Extraction
from extract.planning.plan import documents_of
from extract.planning.progress import PlannedWork, finished_work
from extract.planning.selection import select
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents


def extraction(
    path: Path, workspace: Workspace
) -> tuple[float, list[tuple[str, int, float, bool]], int]:
    """All planned work, the reported progress, and the number of units."""
    problem = load_problem(str(path), workspace)
    selection = select(problem, workspace, device="cpu", dtype="auto")
    table = ensure_documents(problem, workspace)
    documents = documents_of(table, None, selection.conditions)
    told: list[tuple[str, int, float, bool]] = []

    def progress(what: str, units: int, work: float = 0.0, computed: bool = True) -> None:
        told.append((what, units, work, computed))

    Extraction(selection, documents, progress).run()
    total = PlannedWork(selection).total(documents)
    return total, told, len(selection.models) * len(documents) * len(selection.conditions)


def test_the_reported_work_is_the_planned_work(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=2)
    total, told, units = extraction(path, workspace)
    assert sum(work for *_, work, _ in told) == pytest.approx(total)
    assert sum(count for _, count, _, _ in told) == units == 16
    computed = [work for *_, work, done in told if done and work]
    assert len(computed) == 4, "a step is a document of a model"
    # of what is there already nothing takes time
    _, again, _ = extraction(path, workspace)
    assert not [work for *_, work, done in again if done and work]
    assert sum(work for *_, work, _ in again) == pytest.approx(total)


def test_what_the_ledger_has_as_done_is_its_part_of_the_work(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=2)
    ok(run(path, "--probe", "window_24"))
    problem = load_problem(str(path), workspace)
    selection = select(problem, workspace, device="cpu", dtype="auto")
    documents = documents_of(ensure_documents(problem, workspace), None, selection.conditions)
    work = PlannedWork(selection)
    units, finished = finished_work(selection, documents, work)
    assert units == 4 and 0 < finished < work.total(documents)
    # as the run itself reports it when it comes to each model
    total, told, _ = extraction(path, workspace)
    assert sum(
        work for what, _, work, _ in told if what.endswith(("tokenizing", "nothing to do"))
    ) == (pytest.approx(finished))
    assert finished_work(selection, documents, work) == (16, pytest.approx(total))


def test_a_text_that_fails_is_no_work_that_took_time(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=2)
    text = path.read_text().replace("family: one", "family: one\n  context: 8")
    assert text != path.read_text()
    path.write_text(text)
    total, told, units = extraction(path, workspace)
    assert sum(work for *_, work, _ in told) == pytest.approx(total)
    assert sum(count for _, count, _, _ in told) == units
    assert not [what for what, _, work, done in told if work and done and "tiny/one" in what]
