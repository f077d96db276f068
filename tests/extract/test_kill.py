"""kill -9 at random moments, then a rerun: the same table as an undisturbed run.

TOKENMART_KILLS sets how many processes are killed in all, for one worker and for four each half.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from fresh_process import extract_as_process
from published_tables import assert_same, published
from tiny_models import PROBES

from warehouse.maintenance.cli import data as warehouse
from warehouse.paths import Workspace
from warehouse.store.ledger import read_units

KILLS = int(os.environ.get("TOKENMART_KILLS", "10"))


def start(path: Path, workers: int) -> list[multiprocessing.process.BaseProcess]:
    return [extract_as_process(path) for _ in range(workers)]


@pytest.mark.slow
@pytest.mark.timeout(600 + 20 * KILLS)
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_runs_end_in_the_undisturbed_table(
    workers: int, workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=6, probes=PROBES)
    # the server's own start, with its imports, is no part of a run's time
    start(path / "no such file", 1)[0].join()
    started = time.monotonic()
    (calm,) = start(path, 1)
    calm.join()
    duration = time.monotonic() - started
    assert calm.exitcode == 0
    expected = published(workspace)
    assert len(expected) == 8

    rng = np.random.default_rng(workers)
    kills = 0
    while kills < KILLS / 2:
        shutil.rmtree(workspace.data / "tokens")
        shutil.rmtree(workspace.data / "pending")
        for _ in range(4):
            processes = start(path, workers)
            time.sleep(float(rng.uniform(0.0, duration)))
            for process in processes:
                if process.is_alive():
                    os.kill(process.pid or 0, signal.SIGKILL)
                    kills += 1
                process.join()
            # what readers see at this moment is whole units, none of them twice
            for file in workspace.tokens.glob("problem=tiny/**/tokens.parquet"):
                rows = pq.read_table(file, partitioning=None)
                units = {unit.doc_id: unit.rows for unit in read_units(file)}
                counts = rows.group_by("doc_id").aggregate([("doc_id", "count")])
                assert dict(zip(*counts.to_pydict().values(), strict=True)) == units
        (last,) = start(path, 1)
        last.join()
        assert last.exitcode == 0
        done = CliRunner().invoke(warehouse, ["check", "--problem", "tiny"])
        assert done.exit_code == 0, done.output
        again = published(workspace)
        assert again.keys() == expected.keys()
        for name, table in expected.items():
            assert_same(again[name], table)


def test_two_parallel_runs_do_nothing_twice(
    workspace: Workspace, tiny_problem: Callable[..., Path]
) -> None:
    path = tiny_problem(texts=6)
    processes = start(path, 2)
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    units = [
        u for f in workspace.tokens.glob("problem=tiny/**/tokens.parquet") for u in read_units(f)
    ]
    assert len(units) == len({(u.model_id, u.condition, u.doc_id) for u in units}) == 48
