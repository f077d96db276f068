"""Store requests of benchmarks, which are the same for all models, in units of items."""

from __future__ import annotations

import re
from dataclasses import replace

import pyarrow as pa

from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.store.parquet_files import read_table, write_table

UNIT_ITEMS = 32
"""Number of items of a task in one unit; an interrupted run loses at most one unit."""


def condition_of(task: str, ending: str) -> str:
    """Partition key of a task: its name, valid for a folder, and the settings of the run."""
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", task).strip("-.") or "task"
    return f"{name}-{ending}"


def lengths_of(reference: str) -> dict[str, int]:
    """Lengths for normalising scores; words are counted as in the harness, including empty ends."""
    return {
        "characters": len(reference),
        "bytes": len(reference.encode("utf-8", "surrogatepass")),
        "words": len(re.split(r"\s+", reference)),
    }


def eval_store(workspace: Workspace) -> Workspace:
    """The workspace with the token files of benchmarks in place of the documents'."""
    return replace(workspace, prefix="eval_")


def stored_items(workspace: Workspace, problem: str, condition: str) -> pa.Table | None:
    """A task's requests; None if none are stored or readable."""
    folder = workspace.store / "eval_items" / f"problem={problem}" / f"condition={condition}"
    try:
        return read_table(folder / "items.parquet")
    except (FileNotFoundError, StorageError):
        return None


def store_items(workspace: Workspace, problem: str, condition: str, rows: pa.Table) -> list[str]:
    """Write a task's requests, unless the same ones are stored.

    Returns:
        Columns that are replaced for the same requests: `subject` and `cluster` are chosen.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    stored = stored_items(workspace, problem, condition)
    if stored is None or not stored.equals(rows):
        same = stored is not None and stored["unit_sha256"].equals(rows["unit_sha256"])
        folder = workspace.store / "eval_items" / f"problem={problem}" / f"condition={condition}"
        write_table(folder / "items.parquet", rows)
        if stored is not None and same:
            return [name for name in ("subject", "cluster") if not stored[name].equals(rows[name])]
    return []


def store_group(workspace: Workspace, problem: str, condition: str, rows: pa.Table) -> None:
    """Store the tasks and metrics that a group of benchmarks averages.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = workspace.store / "eval_groups" / f"problem={problem}" / f"condition={condition}"
    write_table(folder / "group.parquet", rows)
