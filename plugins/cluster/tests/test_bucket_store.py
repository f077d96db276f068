"""Extraction into a bucket: the rows of a disk, by one process, several, a job array or Ray."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("s3fs", reason="the extra `s3` isn't installed")
pytest.importorskip("moto", reason="the extra `dev` isn't installed")

from bucket_server import BUCKET, Server, Wire, make_bucket, point_at, running
from published_tables import assert_same, published
from tiny_runs import ok, run

from warehouse.paths import Workspace, find_workspace
from warehouse.store.ledger import read_units

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as found:
        yield found


@pytest.fixture
def top(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The address of an empty store."""
    point_at(monkeypatch, server.address)
    make_bucket()
    return f"s3://{BUCKET}/{tmp_path.name}"


def assert_same_store(lab: Workspace, expected: dict[str, object]) -> None:
    found = published(lab)
    assert found.keys() == expected.keys()
    for name, table in found.items():
        assert_same(table, expected[name])
    units = [u for path in lab.tokens.glob("**/tokens.parquet") for u in read_units(path)]
    assert len(units) == len({(u.model_id, u.condition, u.doc_id) for u in units})
    assert {unit.status for unit in units} == {"done"}


def empty_disk(workspace: Workspace) -> None:
    for name in ("tokens", "pending", "models", "documents", "lineup", "claims"):
        shutil.rmtree(workspace.data / name, ignore_errors=True)


def test_the_same_rows_lie_in_a_bucket_and_none_on_the_disk(
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
    top: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tiny_problem(texts=1)
    ok(run(path))
    expected = published(workspace)
    empty_disk(workspace)
    monkeypatch.setenv("TOKENMART_STORE", top)
    lab = find_workspace()
    ok(run(path))
    assert_same_store(lab, expected)
    before = {str(found): found.stat().etag for found in lab.store.glob("**/*")}
    ok(run(path))
    assert {str(found): found.stat().etag for found in lab.store.glob("**/*")} == before
    assert not list(workspace.spool.rglob("*.parquet"))
    assert not list((lab.store / "claims").glob("**/*"))
    for name in ("tokens", "pending", "models", "documents"):
        assert not (workspace.data / name).exists(), name


@pytest.mark.slow
def test_a_connection_lost_while_units_are_written_costs_none(
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
    top: str,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tiny_problem(texts=2)
    ok(run(path))
    expected = published(workspace)
    empty_disk(workspace)
    monkeypatch.setenv("TOKENMART_STORE", top)
    wire = Wire(server.port)
    point_at(monkeypatch, wire.address)
    wire.cut_after(60_000)
    done = run(path)
    assert done.exit_code != 0 and "didn't answer" in done.output
    assert "Traceback" not in done.output
    point_at(monkeypatch, server.address)
    ok(run(path))
    assert_same_store(find_workspace(), expected)
    assert not list(workspace.spool.rglob("*.parquet"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_machine_and_another_share_the_work(
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
    top: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tiny_problem(texts=5)
    ok(run(path))
    expected = published(workspace)
    empty_disk(workspace)
    monkeypatch.setenv("TOKENMART_STORE", top)
    lab = find_workspace()
    command = [sys.executable, str(ROOT / "tokenmart.py"), "extract", "--problem", str(path)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    first, second = (subprocess.Popen(command, env={**os.environ}, **pipes) for _ in range(2))
    deadline = time.monotonic() + 120
    while not list(lab.pending.glob("**/*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert second.wait(200) == 0, second.stderr.read()
    # what the dead one held is free at once: its process is known to be gone
    ok(run(path))
    assert_same_store(lab, expected)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ray_and_a_job_array_write_the_same_rows_into_a_bucket(
    workspace: Workspace,
    tiny_problem: Callable[..., Path],
    top: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ray", reason="the extra `ray` isn't installed")
    pytest.importorskip("submitit", reason="the extra `slurm` isn't installed")
    path = tiny_problem(texts=4)
    ok(run(path))
    expected = published(workspace)
    empty_disk(workspace)
    for place, options in (
        ("ray", ("--on", "ray", "--workers", "2")),
        ("slurm", ("--on", "slurm", "--workers", "2", "--slurm", "timeout_min=10")),
    ):
        monkeypatch.setenv("TOKENMART_STORE", f"{top}/{place}")
        monkeypatch.setenv("TOKENMART_SUBMITIT", "local")
        ok(run(path, *options))
        assert_same_store(find_workspace(), expected)
        assert replace(find_workspace(), address="").tokens.exists() is False
