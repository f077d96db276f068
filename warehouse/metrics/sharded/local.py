"""Shards on this machine, one after another: DuckDB uses all cores for each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from warehouse.files import storage_errors
from warehouse.metrics.sharded.build import Order, Outcome, read_outcome
from warehouse.paths import Workspace

Runner = Callable[[Sequence[Order], Workspace], Iterator[Outcome]]
"""Carries out orders, in any order, and tells how each went."""

MODULE = "warehouse.metrics.sharded.build"


def run_here(orders: Sequence[Order], workspace: Workspace) -> Iterator[Outcome]:
    """Run each shard's process to its end; the next begins whatever became of it.

    Raises:
        StorageError: a log can't be written.
    """
    for order in orders:
        yield run_order(order, workspace)


def run_order(order: Order, workspace: Workspace) -> Outcome:
    """Run one shard's process; what dbt prints goes to `build.log` in its folder."""
    log = Path(order.folder) / "build.log"
    with storage_errors(log), log.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", MODULE, str(order.path)],
            cwd=Path(__file__).parents[3],
            env={**os.environ, **order.environment(workspace)},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    found = read_outcome(order)
    if found is None:
        how = f"killed by signal {-done.returncode}" if done.returncode < 0 else "ended early"
        return Outcome(order.number, f"its process was {how}")
    return found
