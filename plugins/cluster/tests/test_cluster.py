"""Extraction on Ray: the rows of one process, also when a node is lost."""

from __future__ import annotations

import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from engines import FIRST_WITHOUT_MEMORY, HELD, use_engine
from published_tables import assert_same, published
from tiny_runs import ok, run

from extract.models import loading
from extract.models.loading import Loading
from extract.planning.documents import documents_of
from extract.planning.selection import select
from extract.scoring.engine import Engine
from plugins.cluster.cli import extract_on_ray
from plugins.cluster.document_actor import DocumentActor
from plugins.cluster.placement import Queues, place
from warehouse.paths import Workspace
from warehouse.problem.spec import load_problem
from warehouse.problem.tables import ensure_documents
from warehouse.store.ledger import read_units
from warehouse.store.token_files import publish_all

UNITS = 48
"""Two models, six texts, four conditions."""


def test_a_model_is_split_only_where_a_cut_falls_inside_it():
    work = {"small": [0, 1, 2, 3], "large": [0, 1, 2, 3], "middle": [0, 1, 2, 3]}
    parts = place(work, {"small": 1.0, "large": 8.0, "middle": 3.0}, 3)
    assert sorted(unit for part in parts for unit in part) == sorted(
        (model, document) for model, documents in work.items() for document in documents
    )
    loads = [list(dict.fromkeys(model for model, _ in part)) for part in parts]
    assert loads == [["large"], ["large"], ["middle", "small"]]
    assert sum(map(len, loads)) <= len(work) + 3 - 1


def test_an_idle_actor_takes_half_of_the_longest_queue_and_no_single_unit():
    queues = Queues([[("a", n) for n in range(5)], [("b", 0)], []])
    assert queues.next_for(2) == ("a", 3) and queues.next_for(2) == ("a", 4)
    assert [queues.next_for(0) for _ in range(2)] == [("a", 0), ("a", 1)]
    assert queues.next_for(1) == ("b", 0)
    assert queues.next_for(1) is None and len(queues) == 1


def test_a_lost_actors_units_go_to_the_shortest_queue():
    queues = Queues([[("a", 0), ("a", 1)], [("b", 0), ("b", 1)], []])
    assert queues.next_for(0) == ("a", 0)
    queues.close(0, ("a", 0))
    assert [queues.next_for(2) for _ in range(2)] == [("a", 0), ("a", 1)]


def run_on_ray(path, *options):
    return CliRunner().invoke(extract_on_ray, ["--problem", str(path), *options])


def test_an_address_of_ray_s_client_is_refused(tiny_problem):
    done = run_on_ray(tiny_problem(texts=1), "--model", "tiny/one", "--address", "ray://a:1")
    assert done.exit_code == 1 and "--address ray://a:1" in done.output


def test_an_actors_model_may_fill_its_gpu(workspace, tiny_problem, monkeypatch):
    """It stays loaded between documents, and the next model comes when it is gone."""
    loaded: list[weakref.ref[Engine]] = []
    load = loading.load_engine

    def loads(chosen: Loading) -> Engine:
        scorer = load(chosen)
        loaded.append(weakref.ref(scorer))
        return scorer

    def free(device: str) -> int:
        return 2**30 if all(scorer() is None for scorer in loaded) else 0

    monkeypatch.setattr(loading, "load_engine", loads)
    monkeypatch.setattr("extract.extraction.available_memory", free)
    problem = load_problem(str(tiny_problem(texts=2)), workspace)
    selection = select(problem, workspace, device="cpu", dtype="auto")
    documents = documents_of(ensure_documents(problem, workspace), None, selection.conditions)
    actor = DocumentActor(selection, documents, "2026-01-01T00:00:00+00:00")
    reports = [actor.score(model, n, False) for model in ("tiny/one", "tiny/two") for n in (0, 1)]
    assert [report.failures for report in reports] == [()] * 4
    assert [(report.units, report.loads) for report in reports] == [(4, 1), (4, 1), (4, 2), (4, 2)]


def test_a_model_that_one_actor_cant_load_is_done_by_another(workspace, tiny_problem, monkeypatch):
    """Failed is recorded only where no other is left to try."""
    load = loading.load_engine

    def too_large(chosen: Loading) -> Engine:
        raise MemoryError

    problem = load_problem(str(tiny_problem(texts=1)), workspace)
    selection = select(problem, workspace, device="cpu", dtype="auto")
    documents = documents_of(ensure_documents(problem, workspace), None, selection.conditions)

    def score(
        loads: Callable[[Loading], Engine], others: bool, year: int = 2026
    ) -> tuple[int, set[str]]:
        monkeypatch.setattr(loading, "load_engine", loads)
        actor = DocumentActor(selection, documents, f"{year}-01-01T00:00:00+00:00")
        report = actor.score("tiny/one", 0, others)
        publish_all(workspace, problem.name)
        files = workspace.tokens.glob("problem=tiny/**/*.parquet")
        return len(report.failures), {unit.status for file in files for unit in read_units(file)}

    assert score(too_large, others=True) == (1, set())
    assert score(too_large, others=False) == (1, {"failed"})
    assert score(load, others=True, year=9999) == (0, {"done"})  # a later run


def units_of(workspace: Workspace) -> int:
    """How many there are, none of them twice."""
    found = [u for f in workspace.tokens.glob("problem=tiny/**/*.parquet") for u in read_units(f)]
    assert len(found) == len({(u.model_id, u.condition, u.doc_id) for u in found})
    assert {unit.status for unit in found} == {"done"}
    return len(found)


def assert_same_rows(workspace: Workspace, expected: dict[str, object]) -> None:
    found = published(workspace)
    assert found.keys() == expected.keys() and units_of(workspace) == UNITS
    for name, table in found.items():
        assert_same(table, expected[name])


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rows_through_ray_are_those_of_one_process(workspace, tiny_problem):
    pytest.importorskip("ray", reason="the extra `ray` isn't installed")
    path = tiny_problem(texts=6)
    ok(run(path))
    expected = published(workspace)
    shutil.rmtree(workspace.tokens)
    said = ok(run_on_ray(path, "--workers", "2"))
    assert "extracted 48 units; 0 of 48 were there already" in said
    assert_same_rows(workspace, expected)
    assert "extracted 0 units; 48 of 48" in ok(run_on_ray(path, "--workers", "2"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("when", "code", "status"), [("load", 0, "done"), ("always", 5, "failed")])
def test_what_one_actor_has_no_memory_for_is_done_by_another(
    when, code, status, workspace, tiny_problem, monkeypatch
):
    pytest.importorskip("ray", reason="the extra `ray` isn't installed")
    engine = FIRST_WITHOUT_MEMORY.replace('WHEN = "load"', f"WHEN = {when!r}")
    use_engine(engine.replace("+ 60", "+ 0"), workspace.root, monkeypatch)  # actors don't end
    done = run_on_ray(tiny_problem(texts=2), "--workers", "2")
    assert done.exit_code == code, done.output
    files = workspace.tokens.glob("problem=tiny/**/*.parquet")
    units = [unit for file in files for unit in read_units(file)]
    assert len(units) == 16 and {unit.status for unit in units} == {status}
    assert len(list(workspace.root.glob("tried-*"))) == 2


@pytest.fixture
def held(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Actors wait inside their first document until `go` appears."""
    use_engine(HELD, workspace.root, monkeypatch)
    yield workspace.root
    (workspace.root / "go").touch()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_nodes_units_are_taken_over(workspace, tiny_problem, held):
    pytest.importorskip("ray", reason="the extra `ray` isn't installed")
    from ray.cluster_utils import Cluster

    path = tiny_problem(texts=6)
    (held / "go").touch()
    ok(run(path))
    expected = published(workspace)
    shutil.rmtree(workspace.tokens)
    (held / "go").unlink()
    for mark in held.glob("waiting-*"):
        mark.unlink()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        victim = cluster.add_node(num_cpus=1)
        results: list[Result] = []
        working = threading.Thread(
            target=lambda: results.append(run_on_ray(path, "--address", cluster.address))
        )
        working.start()
        deadline = time.monotonic() + 480  # three nodes start slowly on a busy machine
        while len(list(held.glob("waiting-*"))) < 3 and time.monotonic() < deadline:
            assert working.is_alive(), results and results[0].output
            time.sleep(0.1)
        assert len(list(held.glob("waiting-*"))) == 3
        cluster.remove_node(victim, allow_graceful=False)
        (held / "go").touch()
        working.join()
    finally:
        cluster.shutdown()
    said = ok(results[0])
    assert said.count("was lost") == 1 and "others score its units" in said
    assert_same_rows(workspace, expected)
