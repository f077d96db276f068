"""States of units, as `unit_status.sql` decides them, for commands in Python.

The views of SQL and dbt read the same file over published units; here units that are not
published yet count, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import duckdb
import pyarrow as pa

from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.problem.spec import Problem
from warehouse.problem.tables import documents_path
from warehouse.store.ledger import UnitRecord
from warehouse.store.parquet_files import read_table
from warehouse.store.schema import DOCUMENTS
from warehouse.store.token_files import finished_units

State = Literal["done", "failed", "outdated", "missing"]

UNIT_STATUS = (Path(__file__).parent / "unit_status.sql").read_text(encoding="utf-8")

_KEYS = {"problem": "varchar", "model_id": "varchar", "condition": "varchar", "doc_id": "integer"}
_LEDGER = _KEYS | {
    "fingerprint": "varchar",
    "status": "varchar",
    "reason": "varchar",
    "probe_params": "varchar",
    "reference": "varchar",
    "model_sha256": "varchar",
    "document_sha256": "varchar",
    "foreign_sha256": "varchar",
}
_NEEDED = {
    "problem": "varchar",
    "model_id": "varchar",
    "condition": "varchar",
    "is_ranked": "boolean",
    "probe_params": "varchar",
    "reference_sha256": "varchar",
    "model_sha256": "varchar",
    "reads_foreign": "boolean",
}
_DOCUMENTS = {
    "problem": "varchar",
    "doc_id": "integer",
    "sha256": "varchar",
    "foreign_sha256": "varchar",
}


@dataclass(frozen=True)
class Text:
    """What identifies a document's text: its sha256, empty for a text that is not here yet, and
    that of the document that controls read."""

    sha256: str
    foreign_sha256: str | None = None


@dataclass(frozen=True)
class Unit:
    """A unit that is needed or recorded: its state, and its record if there is one."""

    model_id: str
    condition: str
    doc_id: int
    state: State
    record: UnitRecord | None = None
    why: str = ""
    """Why it failed, or is outdated."""


def unit_states(
    workspace: Workspace, needed: pa.Table, documents: Mapping[int, Text] | None
) -> list[Unit]:
    """Every needed unit, by model, condition and document.

    Args:
        needed: from `needed_table`, of one problem.
        documents: texts by number; None where no text is here, and any will do.

    Raises:
        StorageError: a published file is damaged.
    """
    only = next(iter(documents)) if documents is not None and len(documents) == 1 else None
    order: dict[tuple[str, str], int] = {}
    records: list[UnitRecord] = []
    for row in needed.select(["problem", "model_id", "condition"]).to_pylist():
        model_id, condition = row["model_id"], row["condition"]
        order[model_id, condition] = len(order)
        ledger = finished_units(workspace, row["problem"], model_id, condition, only)
        records += [ledger[n] for n in ledger if documents is None or n in documents]
    units = decided(needed, documents, records)
    return sorted(units, key=lambda unit: (order[unit.model_id, unit.condition], unit.doc_id))


def decided(
    needed: pa.Table, documents: Mapping[int, Text] | None, records: Sequence[UnitRecord]
) -> list[Unit]:
    """The units of these records, in their order, then the needed ones without a record.

    Args:
        needed, documents: see `unit_states`.
        records: of the problem, and of any model and condition.
    """
    if not needed.num_rows:
        return []
    problem = needed["problem"][0].as_py()
    texts = [
        {"problem": problem, "doc_id": doc_id, **vars(text)}
        for doc_id, text in (documents or {}).items()
    ]
    with duckdb.connect() as connection:
        _create(connection, "ledger", _LEDGER, [vars(record) for record in records])
        _create(connection, "needed", _NEEDED, needed.to_pylist())
        _create(connection, "documents", _DOCUMENTS, texts)
        rows = connection.execute(
            "select model_id, condition, doc_id, fingerprint, status, why "
            f"from ({UNIT_STATUS}) order by all"
        ).fetchall()
    stored: dict[tuple[str, str, int, str], tuple[State, str]] = {
        (model_id, condition, doc_id, fingerprint): (state, why)
        for model_id, condition, doc_id, fingerprint, state, why in rows
        if state != "missing"
    }
    units = []
    for record in records:
        key = record.model_id, record.condition, record.doc_id
        state, why = stored[(*key, record.fingerprint)]
        units.append(Unit(*key, state, record, why))
    missing = [
        Unit(model_id, condition, doc_id, "missing")
        for model_id, condition, doc_id, _, state, _ in rows
        if state == "missing"
    ]
    return units + missing


def _create(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Mapping[str, str],
    rows: Sequence[Mapping[str, Any]],
) -> None:
    """A table of these rows; DuckDB's own reading of Arrow would load pandas."""
    values = [f'unnest(${column}::{kind}[]) as "{column}"' for column, kind in columns.items()]
    lists = {column: [row[column] for row in rows] for column in columns}
    connection.execute(f"create table {name} as select {', '.join(values)}", lists)


def stored_texts(problem: Problem, workspace: Workspace) -> dict[int, Text] | None:
    """Texts of a problem's stored documents by number; None where they are not here or damaged."""
    with suppress(FileNotFoundError, StorageError):
        path = documents_path(problem, workspace)
        table = read_table(path, ["doc_id", "sha256", "foreign_sha256"], DOCUMENTS)
        columns = (column.to_pylist() for column in table.columns)
        return {doc_id: Text(*hashes) for doc_id, *hashes in zip(*columns, strict=True)}
    return None
