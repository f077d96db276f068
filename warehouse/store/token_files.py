"""Reading and writing the Parquet files: atomic units, published files, small tables.

A finished unit is written to `pending/` in one rename. Publishing merges the pending units of
one (model, condition) into its single published file, again in one rename, and then removes them:
readers of `tokens/` see whole units only, and never one twice.

What keeps several processes and machines apart: a pending file is named by document *and*
fingerprint, so a process only ever removes what it has merged; publishing and mending hold one
lock per (model, condition); readers look at `pending/` first and at the published file second, so a
unit that moves between the two is seen in one of them.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock

from warehouse.bucket import BucketPath, source, version_of
from warehouse.errors import StorageError
from warehouse.files import appearing, storage_errors
from warehouse.object_store import ChangedError, UnreachableError
from warehouse.paths import Workspace
from warehouse.store.intact import data_record
from warehouse.store.ledger import UnitRecord, content_sha256, damaged_file, read_units, with_units
from warehouse.store.schema import TOKENS
from warehouse.store.schema_version import OtherVersionError, refuse_earlier_folders
from warehouse.store.spool import reaching, send_spooled

ROW_GROUP_ROWS = 120_000

STEP_NATS = {"logprob": 2.0**-15, "top_logprob": 2.0**-15, "entropy": 2.0**-11}
"""Floats are stored as multiples of these. Errors, at most 1.6e-5 nats in a log-prob and
2.4e-4 in an entropy, are what a change of kernel does too, and the files shrink by a fifth."""

_ENCODINGS = {"rank": "PLAIN", "token_id": "PLAIN", "choice_id": "PLAIN"}
"""Measured on real extractions; other integers take deltas, floats a byte split. A byte split
would save 0.2 bytes a row on ranks too, but DuckDB 1.5, the last for Python 3.10, can't read it."""

_PENDING_LEVEL, _PUBLISHED_LEVEL = 3, 15
_WITH_STATISTICS = ("doc_id", "segment", "position")
LOCK_NAME = ".publish.lock"
_REMEDY = (
    "or set TOKENMART_DATA to a folder elsewhere, then run the same command again; what was "
    "finished is kept"
)
_KEYS = [("doc_id", "ascending"), ("segment", "ascending"), ("position", "ascending")]


def write_table(
    path: Path, table: pa.Table, level: int = _PUBLISHED_LEVEL, expected: str | None = None
) -> None:
    """Write a Parquet file atomically: a reader sees the old file or the new one, whole.

    Args:
        path: the file; its folder is made.
        table: what to write, in its own schema.
        level: zstd level.
        expected: of an object in a bucket, its version: see `BucketPath.put`.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    encodings = {
        field.name: "BYTE_STREAM_SPLIT"
        if pa.types.is_floating(field.type)
        else _ENCODINGS.get(field.name, "DELTA_BINARY_PACKED")
        for field in table.schema
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
    }
    tokens = table.schema.equals(TOKENS)
    with appearing(path, _REMEDY, expected) as draft:
        if shutil.disk_usage(draft.parent).free < table.nbytes // 4:
            raise OSError(errno.ENOSPC, "disk full")
        # a file of ours: a writer that fails on a full disk leaves its own open
        with draft.open("wb") as file:
            # pyarrow's own copy of the schema would hold the ledger again, in base64
            writer = pq.ParquetWriter(
                file,
                table.schema,
                compression="zstd",
                compression_level=level,
                use_dictionary=False,
                column_encoding=encodings,
                write_statistics=list(_WITH_STATISTICS) if tokens else True,
                store_schema=False,
            )
            with writer:
                writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
                file.flush()
                record = data_record(draft, file.tell())
                writer.add_key_value_metadata({**(table.schema.metadata or {}), **record})


def as_stored(rows: pa.Table) -> pa.Table:
    """Rows with their floats at the stored precision; order between columns is kept."""
    for name, step in STEP_NATS.items():
        values = rows[name].to_numpy()
        # a power of two: both operations are exact; + 0 turns -0.0 into 0.0
        rounded = np.round(values / np.float32(step)) * np.float32(step) + np.float32(0)
        index = rows.schema.get_field_index(name)
        rows = rows.set_column(index, TOKENS.field(name), pa.array(rounded, pa.float32()))
    return rows


def partition(problem: str, model_id: str, condition: str) -> Path:
    """The hive folder of one (problem, model, condition)."""
    return Path(f"problem={problem}") / f"model_id={model_id}" / f"condition={condition}"


def published_path(workspace: Workspace, problem: str, model_id: str, condition: str) -> Path:
    """The file readers see for one (problem, model, condition)."""
    return workspace.tokens / partition(problem, model_id, condition) / "tokens.parquet"


def pending_folder(workspace: Workspace, problem: str, model_id: str, condition: str) -> Path:
    """The folder of finished, not yet published units of one (problem, model, condition)."""
    return workspace.pending / partition(problem, model_id, condition)


@contextmanager
def publication_lock(
    workspace: Workspace, problem: str, model_id: str, condition: str
) -> Iterator[None]:
    """Hold the right to replace the published file of one (problem, model, condition).

    In a bucket nothing is held: whoever replaces a file names the version it has read, and only
    one of several can.

    Raises:
        StorageError: the folder can't be written.
    """
    folder = pending_folder(workspace, problem, model_id, condition)
    if isinstance(folder, BucketPath):
        yield
        return
    with storage_errors(folder, _REMEDY):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_NAME)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def partition_keys(folder: Path) -> tuple[str, str, str]:
    """Problem, model id and condition of a hive folder."""
    problem, model_id, condition = (part.partition("=")[2] for part in folder.parts[-3:])
    return problem, model_id, condition


def write_unit(
    workspace: Workspace, unit: UnitRecord, rows: pa.Table, *, rounded: bool = True
) -> None:
    """Store one unit, rows and ledger record together, in one rename.

    Floats are rounded to `STEP_NATS` unless `rounded` is false; the record's hash is of the rows as
    stored.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = pending_folder(workspace, unit.problem, unit.model_id, unit.condition)
    rows = as_stored(rows) if rounded else rows
    unit = replace(unit, content_sha256=content_sha256(rows))
    name = f"doc-{unit.doc_id:06d}-{unit.fingerprint}.parquet"
    with reaching(workspace, folder / name) as path:
        write_table(path, rows.cast(with_units(TOKENS, [unit])), _PENDING_LEVEL)


def pending_files(folder: Path) -> list[Path]:
    """Files of finished units, oldest first: of two for one document the later counts."""
    ages: list[tuple[int, str, Path]] = []
    for path in folder.glob("doc-*.parquet"):
        with suppress(FileNotFoundError):
            ages.append((path.stat().st_mtime_ns, path.name, path))
    return [path for _, _, path in sorted(ages)]


def set_aside(path: Path, ending: str = ".damaged") -> Path:
    """Rename a file out of every reader's sight, without overwriting an earlier one.

    Raises:
        StorageError: the folder can't be written.
    """
    target, number = path.with_suffix(ending), 1
    while target.exists():
        number += 1
        target = path.with_suffix(f".{number}{ending}")
    with storage_errors(path, _REMEDY), suppress(FileNotFoundError):
        path.rename(target)
    return target


def finished_units(
    workspace: Workspace, problem: str, model_id: str, condition: str
) -> dict[int, UnitRecord]:
    """Ledger of one (problem, model, condition), by document; pending units replace published ones.

    A pending file that can't be read was never a whole unit: it is set aside and recomputed.

    Raises:
        OtherVersionError: another version of Tokenmart wrote the model's files.
        StorageError: the published file is damaged.
    """
    refuse_earlier_folders(workspace.store, problem, model_id)
    pending: dict[int, UnitRecord] = {}
    for path in pending_files(pending_folder(workspace, problem, model_id, condition)):
        try:
            pending.update({unit.doc_id: unit for unit in read_units(path)})
        except (OtherVersionError, UnreachableError):
            raise
        except StorageError:
            set_aside(path)
    published = read_units(published_path(workspace, problem, model_id, condition))
    return {unit.doc_id: unit for unit in published} | pending


def publish(workspace: Workspace, problem: str, model_id: str, condition: str) -> int:
    """Merge the pending units of one (problem, model, condition) into its published file.

    Returns:
        How many pending units were merged.

    Raises:
        OtherVersionError: another version of Tokenmart wrote one of the files.
        StorageError: the published file is damaged, or the disk is full.
    """
    folder = pending_folder(workspace, problem, model_id, condition)
    target = published_path(workspace, problem, model_id, condition)
    if not pending_files(folder):
        return 0
    with publication_lock(workspace, problem, model_id, condition):
        while True:
            with suppress(ChangedError):  # another machine was first: its units are read, too
                return _merge(folder, target)


def _merge(folder: Path, target: Path) -> int:
    """Units merged; in a bucket only if nobody else has merged since the target was read."""
    files = pending_files(folder)
    version = version_of(target)
    fresh: dict[int, tuple[UnitRecord, pa.Table]] = {}
    for path in files:
        found = _read_pending(path)
        if found is None:
            set_aside(path)
        else:
            fresh[found[0].doc_id] = found
    if fresh:
        tables = [rows for _, rows in fresh.values()]
        units = [unit for unit in read_units(target) if unit.doc_id not in fresh]
        if units:
            tables.append(_rows_of(read_rows(target), units))
        write_units(target, [*units, *(unit for unit, _ in fresh.values())], tables, version)
    with storage_errors(folder, _REMEDY):
        for path in files:
            path.unlink(missing_ok=True)
    return len(fresh)


def _read_pending(path: Path) -> tuple[UnitRecord, pa.Table] | None:
    """The unit of a pending file; None when it is not what was written."""
    try:
        (unit,) = read_units(path)
        rows = read_rows(path)
    except (OtherVersionError, UnreachableError):
        raise
    except (StorageError, ValueError):
        return None
    return (unit, rows) if content_sha256(rows) == unit.content_sha256 else None


def read_rows(path: Path) -> pa.Table:
    """All rows of a token file.

    Raises:
        StorageError: the file is damaged.
    """
    try:
        return pq.read_table(source(path), schema=TOKENS, partitioning=None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged_file(path, error) from error


def _rows_of(table: pa.Table, units: list[UnitRecord]) -> pa.Table:
    wanted = pa.array([unit.doc_id for unit in units], pa.int32())
    return table.filter(pc.is_in(table["doc_id"], wanted))


def write_units(
    path: Path, units: list[UnitRecord], tables: list[pa.Table], expected: str | None = None
) -> None:
    """Write a published file: these units, whose rows are in these tables.

    `expected` is of an object in a bucket, see `BucketPath.put`.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    units = sorted(units, key=lambda unit: unit.doc_id)
    rows = pa.concat_tables(tables).sort_by(_KEYS)
    write_table(path, rows.cast(with_units(TOKENS, units)), expected=expected)


def keep_units(path: Path, rows: pa.Table, keep: Callable[[UnitRecord], bool]) -> list[UnitRecord]:
    """Rewrite a published file with the units worth keeping; without any it is removed.

    The caller holds the publication lock.

    Args:
        path: the published file.
        rows: its rows, as far as they could be read.
        keep: says which units stay.

    Returns:
        The units that stayed.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    version = version_of(path)
    units = [unit for unit in read_units(path) if keep(unit)]
    if units:
        write_units(path, units, [_rows_of(rows, units)], version)
    else:
        with storage_errors(path, _REMEDY):
            path.unlink(missing_ok=True)
    return units


def publish_all(workspace: Workspace, problem: str | None = None) -> int:
    """Publish whatever is pending, of one problem or of all; returns the number of units.

    Raises:
        OtherVersionError: another version of Tokenmart wrote files of it.
        StorageError: see `publish`.
    """
    refuse_earlier_folders(workspace.store, problem or "*")
    pattern = f"problem={problem or '*'}/model_id=*/condition=*"
    send_spooled(workspace)
    folders = sorted(workspace.pending.glob(pattern))
    return sum(publish(workspace, *partition_keys(folder)) for folder in folders)
