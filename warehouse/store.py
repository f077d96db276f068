"""Reading and writing the Parquet files: atomic units, published files, small tables.

A finished unit is written to `pending/` in one rename. Publishing merges the pending units of
one (model, probe) into its single published file, again in one rename, and then removes them:
readers of `tokens/` see whole units only, and never one twice.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from filelock import FileLock

from warehouse.errors import StorageError
from warehouse.ledger import UnitRecord, read_units, with_units
from warehouse.paths import Workspace
from warehouse.schema import DICTIONARY_COLUMNS, TABLES, TOKENS

ROW_GROUP_ROWS = 120_000
LEAST_FREE_BYTES = 64 * 1024 * 1024


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn operating-system errors on `path` into one line with a remedy.

    Raises:
        StorageError: disk full, read-only folder or another failure to write.
    """
    try:
        yield
    except OSError as error:
        remedy = {
            errno.ENOSPC: "the disk is full; free some space",
            errno.EDQUOT: "the disk quota is used up; free some space",
            errno.EROFS: "the folder is read-only; set TOKENMART_DATA to a writable one",
            errno.EACCES: "no permission to write; set TOKENMART_DATA to a writable folder",
        }.get(error.errno or 0, f"can't be written ({error.strerror or error})")
        raise StorageError(
            f"{path}: {remedy} and run the same command again; what was finished is kept"
        ) from error


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file atomically: a reader sees the old file or the new one, whole.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    floats = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    integers = [
        field.name
        for field in table.schema
        if pa.types.is_integer(field.type) and field.name not in DICTIONARY_COLUMNS
    ]
    dictionary = [name for name in table.schema.names if name in DICTIONARY_COLUMNS]
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(path.parent).free < table.nbytes // 4:
            raise OSError(errno.ENOSPC, "disk full")
        try:
            with temporary.open("wb") as file:
                pq.write_table(
                    table,
                    file,
                    compression="zstd",
                    compression_level=9,
                    use_dictionary=dictionary or False,
                    column_encoding={
                        **dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
                        **dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
                    },
                    row_group_size=ROW_GROUP_ROWS,
                )
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def partition(problem: str, model_id: str, probe: str) -> Path:
    """The hive folder of one (problem, model, probe)."""
    return Path(f"problem={problem}") / f"model_id={model_id}" / f"probe={probe}"


def published_path(workspace: Workspace, problem: str, model_id: str, probe: str) -> Path:
    """The file readers see for one (problem, model, probe)."""
    return workspace.tokens / partition(problem, model_id, probe) / "tokens.parquet"


def pending_folder(workspace: Workspace, problem: str, model_id: str, probe: str) -> Path:
    """The folder of finished, not yet published units of one (problem, model, probe)."""
    return workspace.pending / partition(problem, model_id, probe)


def write_unit(workspace: Workspace, unit: UnitRecord, rows: pa.Table) -> None:
    """Store one unit, rows and ledger record together, in one rename.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    folder = pending_folder(workspace, unit.problem, unit.model_id, unit.probe)
    table = rows.cast(with_units(TOKENS, [unit]))
    write_table(folder / f"doc-{unit.doc_id:06d}.parquet", table)


def _pending_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("doc-*.parquet")) if folder.is_dir() else []


def finished_units(
    workspace: Workspace, problem: str, model_id: str, probe: str
) -> dict[int, UnitRecord]:
    """Ledger of one (problem, model, probe), by document; pending units replace published ones.

    A pending file that can't be read was never a whole unit: it is set aside and recomputed.

    Raises:
        StorageError: the published file is damaged.
    """
    published = read_units(published_path(workspace, problem, model_id, probe))
    units = {unit.doc_id: unit for unit in published}
    for path in _pending_files(pending_folder(workspace, problem, model_id, probe)):
        try:
            units.update({unit.doc_id: unit for unit in read_units(path)})
        except StorageError:
            path.rename(path.with_suffix(".damaged"))
    return units


def publish(workspace: Workspace, problem: str, model_id: str, probe: str) -> int:
    """Merge the pending units of one (problem, model, probe) into its published file.

    Returns:
        How many pending units were merged.

    Raises:
        StorageError: the published file is damaged, or the disk is full.
    """
    folder = pending_folder(workspace, problem, model_id, probe)
    target = published_path(workspace, problem, model_id, probe)
    if not _pending_files(folder):
        return 0
    with storage_errors(folder), FileLock(folder / ".publish.lock"):
        files = _pending_files(folder)
        fresh: dict[int, UnitRecord] = {}
        tables: list[pa.Table] = []
        for path in files:
            for unit in read_units(path):
                fresh[unit.doc_id] = unit
            tables.append(pq.read_table(path, schema=TOKENS, partitioning=None))
        units = [unit for unit in read_units(target) if unit.doc_id not in fresh]
        if units:
            old = _read_rows(target)
            kept = pc.is_in(old["doc_id"], pa.array([unit.doc_id for unit in units], pa.int32()))
            tables.append(old.filter(kept))
        units = sorted([*units, *fresh.values()], key=lambda unit: unit.doc_id)
        rows = pa.concat_tables(tables).sort_by(
            [("doc_id", "ascending"), ("segment", "ascending"), ("position", "ascending")]
        )
        write_table(target, rows.cast(with_units(TOKENS, units)))
        for path in files:
            path.unlink(missing_ok=True)
    return len(fresh)


def _read_rows(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, schema=TOKENS, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        raise StorageError(
            f"{path}: damaged ({str(error).splitlines()[0][:120]}); move it away and run the "
            "same command again: only its units are recomputed"
        ) from error


def publish_all(workspace: Workspace, problem: str | None = None) -> int:
    """Publish whatever is pending, of one problem or of all; returns the number of units."""
    merged = 0
    pattern = f"problem={problem or '*'}/model_id=*/probe=*"
    for folder in sorted(workspace.pending.glob(pattern)):
        keys = re.findall(r"=([^/]*)", folder.relative_to(workspace.pending).as_posix())
        merged += publish(workspace, *keys)
    return merged


def ensure_tables(workspace: Workspace) -> None:
    """Give every table one file without rows, so that reading it never comes up empty."""
    for name, (schema, keys) in TABLES.items():
        path = workspace.data / name
        for key in keys:
            path = path / f"{key}=_"
        path = path / "empty.parquet"
        if not path.is_file():
            metadata = with_units(schema, []) if name == "tokens" else schema
            write_table(path, metadata.empty_table())
