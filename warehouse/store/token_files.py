"""Reading and writing the Parquet files: atomic units, published files, small tables.

A finished unit is written to `pending/` in one rename. Publishing merges the pending units of
one (model, condition) into its single published file, again in one rename, and then removes them:
readers of `tokens/` see whole units only, and never one twice.

What keeps several processes and machines apart: a pending file is named by document *and*
fingerprint, and removed only if unchanged, so a process only ever removes what it has merged;
publishing and `data gc` take one lock per (model, condition); readers look at `pending/` first and
at the published file second, so a unit that moves between the two is seen in one of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter, itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.errors import StorageError, first_line
from warehouse.files import file_stamp, locked, stamp_if_there, storage_errors
from warehouse.paths import Workspace
from warehouse.store.ledger import UnitRecord, content_sha256, read_units, with_units
from warehouse.store.parquet_files import (
    damaged_file,
    read_table,
    verified_checksum,
    write_table,
    write_tables,
)
from warehouse.store.schema import TOKENS, TOP_TOKENS

STEP_NATS = {"logprob": 2.0**-15, "top_logprob": 2.0**-15, "entropy": 2.0**-11}
"""Floats are stored as multiples of these. Errors, at most 1.6e-5 nats in a log-prob and
2.4e-4 in an entropy, are what a change of kernel does too, and the files shrink by a fifth."""

VARENTROPY_BITS = 8
"""Significant bits of a stored varentropy: within 0.2%, and 0.1% of its root, by which Min-K%++
divides."""

_PENDING_LEVEL = 3
LOCK_NAME = ".publish.lock"
TOP_K_KEY = b"tokenmart.top_k"
"""Parquet footer key of top-k tokens: their number per position in the file."""

_document = attrgetter("doc_id")
_KEYS = [("doc_id", "ascending"), ("segment", "ascending"), ("position", "ascending")]


def as_stored(rows: pa.Table) -> pa.Table:
    """Rows with their floats at the stored precision; order between columns is kept."""
    for name, step in STEP_NATS.items():
        values = rows[name].to_numpy()
        # a power of two: both operations are exact; + 0 turns -0.0 into 0.0
        rounded = np.round(values / np.float32(step)) * np.float32(step) + np.float32(0)
        index = rows.schema.get_field_index(name)
        nothing = rows[name].is_null().to_numpy()
        column = pa.array(rounded, pa.float32(), mask=nothing)
        rows = rows.set_column(index, TOKENS.field(name), column)
    if rows["varentropy"].null_count:
        return rows
    fraction, exponent = np.frexp(rows["varentropy"].to_numpy())
    steps = np.float32(2**VARENTROPY_BITS)
    rounded = np.ldexp(np.round(fraction * steps) / steps, exponent)
    index = rows.schema.get_field_index("varentropy")
    return rows.set_column(index, TOKENS.field(index), pa.array(rounded, pa.float32()))


def _with_all_columns(rows: pa.Table) -> pa.Table:
    """Rows of a token file in the schema; nullable columns that it lacks are null."""
    for index, column in enumerate(TOKENS):
        if column.nullable and column.name not in rows.column_names:
            rows = rows.add_column(index, column, pa.nulls(rows.num_rows, column.type))
    return rows.cast(TOKENS)


def partition(problem: str, model_id: str, condition: str) -> Path:
    """The hive folder of one (problem, model, condition)."""
    return Path(f"problem={problem}") / f"model_id={model_id}" / f"condition={condition}"


def published_path(workspace: Workspace, problem: str, model_id: str, condition: str) -> Path:
    """The file readers see for one (problem, model, condition)."""
    return workspace.tokens / partition(problem, model_id, condition) / "tokens.parquet"


def pending_folder(workspace: Workspace, problem: str, model_id: str, condition: str) -> Path:
    """The folder of finished, not yet published units of one (problem, model, condition)."""
    return workspace.pending / partition(problem, model_id, condition)


def publication_lock(
    workspace: Workspace, problem: str, model_id: str, condition: str
) -> AbstractContextManager[None]:
    """Lock the published file of one (problem, model, condition) for replacement.

    Raises:
        StorageError: the folder can't be written.
    """
    folder = pending_folder(workspace, problem, model_id, condition)
    return locked(folder / LOCK_NAME)


def partition_keys(folder: Path) -> tuple[str, str, str]:
    """Problem, model id and condition of a hive folder."""
    problem, model_id, condition = (part.partition("=")[2] for part in folder.parts[-3:])
    return problem, model_id, condition


def write_unit(
    workspace: Workspace, unit: UnitRecord, rows: pa.Table, *, rounded: bool = True
) -> None:
    """Store one unit, rows and ledger record together, in one rename.

    Rows are sorted, and floats rounded to `STEP_NATS` unless `rounded` is false; the record's hash
    is of the rows as stored.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = pending_folder(workspace, unit.problem, unit.model_id, unit.condition)
    rows = (as_stored(rows) if rounded else rows).sort_by(_KEYS)
    unit = replace(unit, content_sha256=content_sha256(rows))
    name = f"doc-{unit.doc_id:06d}-{unit.fingerprint}.parquet"
    write_table(folder / name, rows.cast(with_units(TOKENS, [unit])), _PENDING_LEVEL)


def pending_files(folder: Path, doc_id: int | None = None) -> list[Path]:
    """Files of finished units, or those of one document, oldest first: the later one counts."""
    names = "doc-*.parquet" if doc_id is None else f"doc-{doc_id:06d}-*.parquet"
    ages: list[tuple[int, str, Path]] = []
    for path in folder.glob(names):
        with suppress(FileNotFoundError):
            ages.append((path.stat().st_mtime_ns, path.name, path))
    return [path for _, _, path in sorted(ages)]


def set_aside(path: Path) -> Path:
    """Rename a file to `*.damaged`, without overwriting an earlier one.

    Raises:
        StorageError: the folder can't be written.
    """
    target, number = path.with_suffix(".damaged"), 1
    while target.exists():
        number += 1
        target = path.with_suffix(f".{number}.damaged")
    with storage_errors(path), suppress(FileNotFoundError):
        path.rename(target)
    return target


def finished_units(
    workspace: Workspace,
    problem: str,
    model_id: str,
    condition: str,
    doc_id: int | None = None,
) -> dict[int, UnitRecord]:
    """Ledger of one (problem, model, condition), by document; pending units replace published ones.

    A pending file that can't be read was never a whole unit: it is set aside and recomputed. With
    `doc_id` the pending files of other documents are not read.

    Raises:
        StorageError: the published file is damaged.
    """
    pending: dict[int, UnitRecord] = {}
    for path in pending_files(pending_folder(workspace, problem, model_id, condition), doc_id):
        try:
            pending.update({unit.doc_id: unit for unit in read_units(path)})
        except StorageError:
            set_aside(path)
    published = published_path(workspace, problem, model_id, condition)
    try:
        units = _published_units(published, file_stamp(published))
    except FileNotFoundError:
        units = ()
    return {unit.doc_id: unit for unit in units} | pending


@lru_cache(maxsize=32)
def _published_units(path: Path, stamp: str) -> tuple[UnitRecord, ...]:
    """Records of a published file, read once for all documents; `stamp` is the file's."""
    return tuple(read_units(path))


def publish(workspace: Workspace, problem: str, model_id: str, condition: str) -> int:
    """Merge the pending units of one (problem, model, condition) into its published file.

    Returns:
        How many pending units were merged.

    Raises:
        StorageError: the published file is damaged, or the disk is full.
    """
    folder = pending_folder(workspace, problem, model_id, condition)
    target = published_path(workspace, problem, model_id, condition)
    if not pending_files(folder):
        return 0
    with publication_lock(workspace, problem, model_id, condition):
        return _merge(folder, target)


def _merge(folder: Path, target: Path) -> int:
    """Units merged."""
    files = pending_files(folder)
    # a unit that failed may be written again under its name meanwhile: it stays
    stamps = {path: stamp_if_there(path) for path in files}
    fresh: dict[int, tuple[UnitRecord, Path]] = {}
    for path in files:
        unit = _whole_unit(path)
        if unit is None:
            set_aside(path)
        else:
            fresh[unit.doc_id] = unit, path
    if fresh:
        kept = [unit for unit in read_units(target) if unit.doc_id not in fresh]
        if kept:
            verified_checksum(target)  # what is copied gets a new checksum
        units = sorted([*kept, *(unit for unit, _ in fresh.values())], key=_document)
        stored = _stored_rows(target, {unit.doc_id for unit in kept}) if kept else ()
        new = ((doc_id, read_rows(fresh[doc_id][1]).sort_by(_KEYS)) for doc_id in sorted(fresh))
        rows = (piece for _, piece in heapq.merge(stored, new, key=itemgetter(0)))
        write_tables(target, with_units(TOKENS, units), rows)
    with storage_errors(folder):
        for path, stamp in stamps.items():
            if stamp_if_there(path) == stamp:
                path.unlink(missing_ok=True)
    return len(fresh)


def _whole_unit(path: Path) -> UnitRecord | None:
    """The unit of a pending file; None when it is not what was written."""
    try:
        (unit,) = read_units(path)
        rows = read_rows(path)
    except (FileNotFoundError, StorageError, ValueError):
        return None
    return unit if content_sha256(rows) == unit.content_sha256 else None


def _stored_rows(path: Path, doc_ids: set[int]) -> Iterator[tuple[int, pa.Table]]:
    """Rows of these documents in a published file, as (document, rows of it in one row group).

    A published file is in the order of its documents. It is read a row group at a time.
    """
    try:
        with pq.ParquetFile(path) as file:
            for group in range(file.num_row_groups):
                rows = _with_all_columns(file.read_row_group(group))
                documents = rows["doc_id"].to_numpy()
                starts = np.flatnonzero(np.diff(documents, prepend=-1)).tolist()
                for start, end in pairwise([*starts, len(documents)]):
                    if (doc_id := int(documents[start])) in doc_ids:
                        yield doc_id, rows.slice(start, end - start)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged_file(path, first_line(error)) from error


def read_rows(path: Path) -> pa.Table:
    """All rows of a token file.

    Raises:
        FileNotFoundError: no such file.
        StorageError: the file is damaged.
    """
    return read_table(path, schema=TOKENS)


def write_units(path: Path, units: list[UnitRecord], tables: list[pa.Table]) -> None:
    """Write a published file: these units, whose rows are in these tables.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    units = sorted(units, key=_document)
    rows = pa.concat_tables(tables).sort_by(_KEYS)
    write_table(path, rows.cast(with_units(TOKENS, units)))


def publish_all(workspace: Workspace, problem: str | None = None) -> int:
    """Publish whatever is pending, of one problem or of all; returns the number of units.

    Raises:
        StorageError: see `publish`.
    """
    pattern = f"problem={problem or '*'}/model_id=*/condition=*"
    folders = sorted(workspace.pending.glob(pattern))
    return sum(publish(workspace, *partition_keys(folder)) for folder in folders)


def _side_path(folder: Path, unit: UnitRecord) -> Path:
    folder = folder / partition(unit.problem, unit.model_id, unit.condition)
    return folder / f"doc-{unit.doc_id:06d}-{unit.fingerprint}.parquet"


def stored_top_k(workspace: Workspace, unit: UnitRecord) -> int:
    """How many of the most likely tokens are stored for each row of a unit; 0 for none.

    Raises:
        StorageError: the file is damaged.
    """
    path = _side_path(workspace.store / "top_tokens", unit)
    try:
        metadata = pq.read_schema(path).metadata or {}
    except FileNotFoundError:
        return 0
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged_file(path, first_line(error)) from error
    return int(metadata.get(TOP_K_KEY, b"0"))


def write_top_tokens(
    workspace: Workspace, unit: UnitRecord, rows: pa.Table | None, top_k: int
) -> None:
    """Store the top-k tokens of a unit: see `write_side_rows`.

    Args:
        rows: in the schema `TOP_TOKENS`; None for none.
        top_k: how many of each token.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    schema = TOP_TOKENS.with_metadata({TOP_K_KEY: str(top_k).encode()})
    write_side_rows(
        workspace.store / "top_tokens", unit, None if rows is None else rows.cast(schema)
    )


def write_side_rows(folder: Path, unit: UnitRecord, rows: pa.Table | None) -> None:
    """Store further rows of a unit, and remove those of an earlier unit of its document.

    They are written before the unit itself: a finished unit for which they were requested has them.

    Args:
        folder: of their table.
        rows: of the unit; None for none.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    path = _side_path(folder, unit)
    if rows is not None:
        write_table(path, rows)
    with storage_errors(path):
        for old in path.parent.glob(f"doc-{unit.doc_id:06d}-*.parquet"):
            if rows is None or old != path:
                old.unlink(missing_ok=True)
