"""kill -9 at named points, then a rerun: the same table as an undisturbed run."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from fresh_process import Point, extract_as_process
from published_tables import assert_same, published

from warehouse.maintenance.cli import data
from warehouse.paths import Workspace
from warehouse.store.ledger import UnitRecord, read_units

POINTS = [
    Point("os.rename", "doc-", 1),  # a unit is stored: the first, and one in the middle
    Point("os.rename", "doc-", 7),
    Point("os.rename", "tokens.parquet", 1),  # published, of either model
    Point("os.rename", "tokens.parquet", 6),
    Point("os.remove", "doc-", 1),  # published and still pending, all or some
    Point("os.remove", "doc-", 3),
]


def units_of(workspace: Workspace) -> list[UnitRecord]:
    """All published units; each is whole, and none is there twice."""
    units = []
    for file in workspace.tokens.glob("problem=tiny/**/tokens.parquet"):
        counts = pq.read_table(file, partitioning=None).group_by("doc_id")
        rows = dict(zip(*counts.aggregate([("doc_id", "count")]).to_pydict().values(), strict=True))
        own = read_units(file)
        assert rows == {unit.doc_id: unit.rows for unit in own} and len(rows) == len(own)
        units += own
    return units


def run(path: Path, *killed: Point | None) -> list[int | None]:
    """Exit codes of processes that run in parallel."""
    processes = [extract_as_process(path, point) for point in killed]
    for process in processes:
        process.join(240)
    return [process.exitcode for process in processes]


@pytest.fixture(scope="module")
def calm() -> dict[str, pa.Table]:
    """The tables of an undisturbed run, made once."""
    return {}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("point", POINTS, ids=lambda point: "-".join(map(str, point)))
def test_a_killed_run_ends_in_the_undisturbed_table(point, workers, calm, workspace, tiny_problem):
    path = tiny_problem(texts=4)
    if not calm:
        assert run(path, None) == [0]
        calm |= published(workspace)
        assert len(calm) == 8
        for folder in ("tokens", "pending"):
            shutil.rmtree(workspace.data / folder)
    codes = run(path, point, *[None] * (workers - 1))
    # of several processes the marked one may come to nothing; alone it always does
    assert codes[0] == -signal.SIGKILL or workers > 1
    units_of(workspace)
    assert run(path, None) == [0]
    checked = CliRunner().invoke(data, ["check", "--problem", "tiny"])
    assert checked.exit_code == 0, checked.output
    again = published(workspace)
    assert again.keys() == calm.keys() and len(units_of(workspace)) == 32
    for name, table in calm.items():
        assert_same(again[name], table)


def test_two_parallel_runs_do_nothing_twice(workspace, tiny_problem):
    assert run(tiny_problem(texts=3), None, None) == [0, 0]
    units = units_of(workspace)
    assert len(units) == len({(u.model_id, u.condition, u.doc_id) for u in units}) == 24
