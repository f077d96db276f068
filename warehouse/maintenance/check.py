"""Checks of the store: files against their checksums, and each unit's rows against rules in SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import StorageError, first_line
from warehouse.paths import Workspace
from warehouse.probes.kinds import condition_kinds
from warehouse.probes.request import ConditionKind
from warehouse.progress import Progress, no_progress
from warehouse.sql.connection import interruptible
from warehouse.sql.views import TOKEN_RULES
from warehouse.store.ledger import UnitRecord, lacking_columns, read_units
from warehouse.store.parquet_files import verified_checksum
from warehouse.store.schema import DOCUMENTS, table_path
from warehouse.store.stored_files import Fault, find_faults, table_files
from warehouse.store.token_files import partition_keys, pending_files

RULES = {
    "rank, top_logprob and entropy are null in what an import lacks": (
        "(rank is not null or 'rank' in lacks)"
        " and (top_logprob is not null or 'top_logprob' in lacks)"
        " and (entropy is not null or 'entropy' in lacks)"
    ),
    "token_id >= 0": "token_id >= 0",
    "context_tokens >= 0": "context_tokens >= 0",
    "context_tokens = position after the whole document": (
        "context_tokens = position or not whole_context"
    ),
    "0 <= position < document_tokens": "position between 0 and document_tokens - 1",
    "0 <= char_start <= char_end <= characters of the document": (
        "char_start between 0 and char_end and char_end <= coalesce(characters, char_end)"
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
"""Rule of a row in its unit → condition that is true of a row that keeps it. Those of a row alone
are in `warehouse/sql/token_rules.sql`."""

_BROKEN = ", ".join(
    f"count(*) filter (where not coalesce({condition}, false)) as rule_{number}"
    for number, condition in enumerate(RULES.values())
)
_QUERY = f"""
    with facts as (
        select unit_facts.*, characters
        from unit_facts
        left join (select sha256, max(characters) as characters from documents group by sha256)
        using (sha256)
    ),
    ordered as (
        select
            *,
            lag(doc_id) over (order by file_row_number) as doc_before,
            lag(segment) over (order by file_row_number) as segment_before,
            lag(position) over (order by file_row_number) as position_before,
            lead(doc_id) over (order by file_row_number) as doc_after
        from read_parquet($file, file_row_number = true, hive_partitioning = false)
    ),
    ruled as (
        select
            *,
            coalesce(
                main.broken_token_rule(logprob, rank, top_logprob, entropy),
                main.contradicting_token_rule(logprob, rank, top_logprob, entropy, $vocabulary)
            ) as broken
        from ordered
    ),
    counted as (
        select doc_id, count(*) as n, histogram(broken) as broken, {_BROKEN}
        from ruled left join facts using (doc_id)
        group by doc_id
    )
    select coalesce(doc_id, -1), coalesce(n, 0), expected, counted.* exclude (doc_id, n)
    from counted full join facts using (doc_id)
    order by 1
"""


@dataclass(frozen=True)
class StoreCheck:
    """Number of files, units and rows that were compared, and what is wrong."""

    files: int
    units: int
    rows: int
    defects: tuple[Fault, ...]


def check_store(
    workspace: Workspace, problem: str | None = None, progress: Progress = no_progress
) -> StoreCheck:
    """Compare each file with its checksum, and each token file with its ledger and the rules.

    Args:
        problem: its files alone; None for all.
    """
    defects = [
        fault
        for fault in find_faults(workspace, every_byte=True)
        if problem is None or f"problem={problem}" in fault.path.parts
    ]
    damaged = {defect.path for defect in defects}
    files = [path for path in _token_files(workspace, problem) if path not in damaged]
    units = rows = 0
    with duckdb.connect() as connection:
        connection.execute(TOKEN_RULES)
        connection.register("documents", _documents(workspace, damaged))
        for path in files:
            progress(path.parent.name, 1)
            model = table_path(workspace, "models", *partition_keys(path.parent)[:2])
            vocabulary = None if model in damaged else _vocabulary(model)
            checked = check_units(path, connection, vocabulary)
            units, rows = units + checked.units, rows + checked.rows
            defects += checked.defects
    return StoreCheck(len(files) + len(damaged), units, rows, tuple(defects))


def _token_files(workspace: Workspace, problem: str | None) -> list[Path]:
    """Published and pending token files, of one problem or of all."""
    folders = f"problem={problem or '*'}/model_id=*/condition=*"
    paths = []
    for store in workspace.token_stores:
        paths += sorted(store.tokens.glob(f"{folders}/tokens.parquet"))
        for folder in sorted(store.pending.glob(folders)):
            paths += pending_files(folder)
    return paths


def _documents(workspace: Workspace, damaged: Collection[Path]) -> pa.Table:
    """Characters of the stored documents, by the hash of their text."""
    schema = pa.schema([DOCUMENTS.field("sha256"), DOCUMENTS.field("characters")])
    tables = [
        pq.read_table(path, columns=schema.names, partitioning=None).cast(schema)
        for path in table_files(workspace, "documents")
        if path not in damaged
    ]
    return pa.concat_tables([schema.empty_table(), *tables])


def _vocabulary(path: Path) -> int | None:
    """That of a stored model; None where it isn't known, as of versions that didn't store it."""
    if not path.is_file():
        return None
    (row,) = pq.read_table(path, partitioning=None).to_pylist()
    size: int | None = row.get("vocabulary")
    return size


def check_units(
    path: Path, connection: duckdb.DuckDBPyConnection, vocabulary: int | None
) -> StoreCheck:
    """Compare the rows of a token file with its ledger and the rules.

    Args:
        connection: with `TOKEN_RULES` and the table `documents`; texts that it lacks may be of any
            length.
        vocabulary: number of tokens of the model.
    """
    try:
        verified_checksum(path)
        units = read_units(path)
        connection.register("unit_facts", _facts(units))
        given = {"file": str(path), "vocabulary": vocabulary}
        rows = interruptible(connection, lambda: connection.execute(_QUERY, given).fetchall())
    except FileNotFoundError:
        return StoreCheck(1, 0, 0, ())  # merged by another process in the meantime
    except StorageError as error:
        return StoreCheck(1, 0, 0, (Fault(path, error.format_message()),))
    except duckdb.Error as error:
        return StoreCheck(1, 0, 0, (Fault(path, f"can't be read ({first_line(error)})"),))
    defects = tuple(Fault(path, *wrong) for row in rows for wrong in _wrong(*row))
    return StoreCheck(1, len(units), sum(row[1] for row in rows), defects)


def _facts(units: list[UnitRecord]) -> pa.Table:
    """What the rules know of each unit."""
    kinds = condition_kinds()
    of_unit = [kinds.get(u.condition_kind, ConditionKind(u.condition_kind)) for u in units]
    return pa.table(
        {
            "doc_id": pa.array([unit.doc_id for unit in units], pa.int32()),
            "expected": pa.array([unit.rows for unit in units], pa.int64()),
            "document_tokens": pa.array([unit.document_tokens for unit in units], pa.int32()),
            "sha256": pa.array([unit.document_sha256 for unit in units], pa.string()),
            "lacks": pa.array([lacking_columns(unit) for unit in units], pa.list_(pa.string())),
            "contiguous": pa.array([kind.contiguous for kind in of_unit], pa.bool_()),
            "whole_context": pa.array([kind.whole_context for kind in of_unit], pa.bool_()),
        }
    )


def _wrong(
    doc_id: int, rows: int, expected: int | None, by_rule: dict[str, int] | None, *broken: int
) -> Iterator[tuple[str, int]]:
    if expected is None:
        yield "rows without a record in the ledger", doc_id
        return
    if rows != expected:
        yield f"{rows:,} rows, the ledger has {expected:,}", doc_id
    for rule, count in [*(by_rule or {}).items(), *zip(RULES, broken, strict=True)]:
        if rows and count:
            yield f"rows that break the rule ({count:,}): {rule}", doc_id
