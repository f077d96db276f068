"""Checks of the store: files against their checksums, and each unit's rows against rules in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import StorageError, first_line
from warehouse.paths import Workspace
from warehouse.probes.probe import condition_kinds
from warehouse.probes.request import ConditionKind
from warehouse.store.ledger import UnitRecord, content_sha256, read_ledger, read_units
from warehouse.store.parquet_files import damage, read_table
from warehouse.store.schema import TOKENS
from warehouse.store.stored_files import find_faults
from warehouse.store.token_files import (
    keep_units,
    partition_keys,
    pending_files,
    publication_lock,
    set_aside,
)

IMPORTED = "import"
"""The ledger's probe of rows that another program computed: it may have only their log-prob."""

RULES = {
    "logprob <= 0, finite": "isfinite(logprob) and logprob <= 0",
    "logprob <= top_logprob <= 0": (
        "(top_logprob >= logprob and top_logprob <= 0) or (imported and isnan(top_logprob))"
    ),
    "entropy >= 0, finite": (
        "(isfinite(entropy) and entropy >= 0) or (imported and isnan(entropy))"
    ),
    "rank >= 1": "rank >= 1",
    "token_id >= 0": "token_id >= 0",
    "context_tokens >= 0": "context_tokens >= 0",
    "context_tokens = position after the whole document": (
        "context_tokens = position or not whole_context"
    ),
    "0 <= position < document_tokens": "position between 0 and document_tokens - 1",
    "0 <= char_start <= char_end <= characters of the document": (
        "char_start between 0 and char_end and char_end <= characters"
    ),
    "sorted by doc_id, segment, position, each once": (
        "doc_before is null or (doc_id, segment, position)"
        " > (doc_before, segment_before, position_before)"
    ),
    "positions without a gap": (
        "doc_before is distinct from doc_id or (segment_before <> segment and not contiguous)"
        " or position = position_before + 1"
    ),
    "positions from 0 or 1 on": (
        "not whole_context or doc_before is not distinct from doc_id or position <= 1"
    ),
    "positions up to the last token": (
        "not contiguous or doc_after is not distinct from doc_id or position = document_tokens - 1"
    ),
}
"""Rule → condition that is true of a row that keeps it."""

_BROKEN = ", ".join(
    f"count(*) filter (where not coalesce({condition}, false)) as rule_{number}"
    for number, condition in enumerate(RULES.values())
)
_QUERY = f"""
    with ordered as (
        select
            *,
            lag(doc_id) over (order by file_row_number) as doc_before,
            lag(segment) over (order by file_row_number) as segment_before,
            lag(position) over (order by file_row_number) as position_before,
            lead(doc_id) over (order by file_row_number) as doc_after
        from read_parquet($file, file_row_number = true, hive_partitioning = false)
    ),
    counted as (
        select doc_id, count(*) as n, {_BROKEN}
        from ordered left join unit_facts using (doc_id)
        group by doc_id
    )
    select coalesce(doc_id, -1), coalesce(n, 0), expected, counted.* exclude (doc_id, n)
    from counted full join unit_facts using (doc_id)
    order by 1
"""


@dataclass(frozen=True)
class Defect:
    """What is wrong with a file, or with one unit in it when `doc_id` is given."""

    file: Path
    what: str
    doc_id: int | None = None


@dataclass(frozen=True)
class FileCheck:
    """Units and rows of a token file, and its defects."""

    units: int
    rows: int
    defects: tuple[Defect, ...]


def file_defects(workspace: Workspace, problem: str | None) -> list[Defect]:
    """Files of the tables that are not what was written there; every byte is read."""
    return [
        Defect(*fault)
        for fault in find_faults(workspace, every_byte=True)
        if problem is None or f"problem={problem}" in fault.path.parts
    ]


def token_files(workspace: Workspace, problem: str | None = None) -> list[Path]:
    """Published and pending token files, of one problem or of all."""
    folders = f"problem={problem or '*'}/model_id=*/condition=*"
    published = workspace.tokens.glob(f"{folders}/tokens.parquet")
    pending = [path for folder in workspace.pending.glob(folders) for path in pending_files(folder)]
    return [*sorted(published), *pending]


def document_lengths(workspace: Workspace, problem: str) -> dict[str, int]:
    """Characters of a problem's documents by the sha256 of their text; empty where none are here.

    Raises:
        StorageError: their table is damaged.
    """
    path = workspace.documents / f"problem={problem}" / "documents.parquet"
    if not path.is_file():
        return {}
    table = read_table(path, ["sha256", "characters"])
    return dict(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check_units(path: Path, lengths: dict[str, int]) -> FileCheck:
    """Compare the rows of a token file with its ledger and the rules.

    Args:
        lengths: of documents, from `document_lengths`; others may be of any length.
    """
    try:
        if what := damage(path):
            return FileCheck(0, 0, (Defect(path, what),))
        units = read_units(path)
        with duckdb.connect() as connection:
            connection.register("unit_facts", _facts(units, lengths))
            rows = connection.execute(_QUERY, {"file": str(path)}).fetchall()
    except FileNotFoundError:
        return FileCheck(0, 0, ())  # merged by another process in the meantime
    except StorageError as error:
        return FileCheck(0, 0, (Defect(path, error.format_message()),))
    except (pa.ArrowException, OSError, ValueError, duckdb.Error) as error:
        return FileCheck(0, 0, (Defect(path, f"can't be read ({first_line(error)})"),))
    defects = tuple(Defect(path, *wrong) for row in rows for wrong in _wrong(*row))
    return FileCheck(len(units), sum(row[1] for row in rows), defects)


def _facts(units: list[UnitRecord], lengths: dict[str, int]) -> pa.Table:
    kinds, largest = condition_kinds(), int(np.iinfo(np.int32).max)
    rows = []
    for unit in units:
        kind = kinds.get(unit.condition_kind, ConditionKind(unit.condition_kind))
        rows.append(
            {
                "doc_id": unit.doc_id,
                "expected": unit.rows,
                "document_tokens": unit.document_tokens,
                "imported": unit.probe == IMPORTED,
                "contiguous": kind.contiguous,
                "whole_context": kind.whole_context,
                "characters": lengths.get(unit.document_sha256, largest),
            }
        )
    return pa.Table.from_pylist(rows, pa.schema(_FACTS))


_FACTS = {
    "doc_id": pa.int32(),
    "expected": pa.int64(),
    "document_tokens": pa.int32(),
    "imported": pa.bool_(),
    "contiguous": pa.bool_(),
    "whole_context": pa.bool_(),
    "characters": pa.int64(),
}


def _wrong(doc_id: int, rows: int, expected: int | None, *broken: int) -> Iterator[tuple[str, int]]:
    if expected is None:
        yield "rows without a record in the ledger", doc_id
        return
    if rows != expected:
        yield f"{rows:,} rows, the ledger has {expected:,}", doc_id
    for rule, count in zip(RULES, broken, strict=True):
        if rows and count:
            yield f"rows that break the rule ({count:,}): {rule}", doc_id


def repair(workspace: Workspace, path: Path, defects: list[Defect]) -> str:
    """Take what is wrong out of readers' way; nothing is deleted but damaged units.

    A published token file keeps the units whose rows have the hash in the ledger, so that only the
    others are computed again. Every other file is renamed to `*.damaged`.

    Args:
        defects: of this file.

    Returns:
        What was done, in a few words.

    Raises:
        StorageError: the folder can't be written.
    """
    for store in workspace.token_stores:
        if path.is_relative_to(store.tokens) and path.name == "tokens.parquet":
            with publication_lock(store, *partition_keys(path.parent)):
                return _keep_intact(path, {defect.doc_id for defect in defects})
    return f"renamed to {set_aside(path)}"


def _keep_intact(path: Path, bad: set[int | None]) -> str:
    keys = partition_keys(path.parent)
    try:
        ledger, tables = read_ledger(path), _readable(path)
        rows = pa.concat_tables(tables)
        intact = {
            unit.doc_id
            for unit in ledger.units
            if unit not in ledger.altered
            and (unit.problem, unit.model_id, unit.condition) == keys
            and unit.doc_id not in bad
            and (mine := _rows_of(rows, unit)).num_rows == unit.rows
            and content_sha256(mine) == unit.content_sha256
        }
    except (StorageError, pa.ArrowException, OSError, ValueError):
        intact = set()
    if not intact:
        return f"renamed to {set_aside(path)}"
    kept = keep_units(path, rows, lambda unit: unit.doc_id in intact)
    return f"kept {len(kept)} units, dropped {len(ledger.units) - len(kept)}"


def _readable(path: Path) -> list[pa.Table]:
    tables = [TOKENS.empty_table()]
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            try:
                tables.append(file.read_row_group(group).cast(TOKENS))
            except (pa.ArrowException, OSError, ValueError):
                continue
    return tables


def _rows_of(rows: pa.Table, unit: UnitRecord) -> pa.Table:
    return rows.filter(pa.compute.equal(rows["doc_id"], unit.doc_id)).combine_chunks()
