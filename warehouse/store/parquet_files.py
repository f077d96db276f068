"""Parquet files: written whole, with the hash of their data in the footer, and sent to a bucket.

Parquet's readers check nothing: a flipped bit is another number. Ledger and rows have hashes of
their own, but those of the rows need every row decoded; this one reads the file once, at the speed
of the disk.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.files import appearing, sha256_file
from warehouse.paths import Workspace
from warehouse.remote import RemotePath, footer
from warehouse.store.schema import TOKENS

DATA_KEY = b"tokenmart.data"
"""Footer key: number and sha256 of the bytes before the footer."""

ROW_GROUP_ROWS = 120_000

_ENCODINGS = {"rank": "PLAIN", "token_id": "PLAIN", "choice_id": "PLAIN"}
"""Measured on real extractions; other integers take deltas, floats a byte split. A byte split
would save 0.2 bytes a row on ranks too, but DuckDB 1.5, the last for Python 3.10, can't read it."""

_PUBLISHED_LEVEL = 15
_WITH_STATISTICS = ("doc_id", "segment", "position")
STORAGE_REMEDY = (
    "or set TOKENMART_DATA to a folder elsewhere, then run the same command again; what was "
    "finished is kept"
)
_AT_ONCE = 8


def write_table(
    path: Path, table: pa.Table, level: int = _PUBLISHED_LEVEL, expected: str | None = None
) -> None:
    """Write a Parquet file atomically: a reader sees the old file or the new one, whole.

    Args:
        level: zstd level.
        expected: of an object in a bucket, its version: see `RemotePath.put`.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    write_tables(path, table.schema, [table], level, expected)


def write_tables(
    path: Path,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    level: int = _PUBLISHED_LEVEL,
    expected: str | None = None,
) -> None:
    """`write_table` of the rows of many, in memory a row group and one of them at a time.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    encodings = {
        field.name: "BYTE_STREAM_SPLIT"
        if pa.types.is_floating(field.type)
        else _ENCODINGS.get(field.name, "DELTA_BINARY_PACKED")
        for field in schema
        if pa.types.is_floating(field.type) or pa.types.is_integer(field.type)
    }
    # a file of ours: a writer that fails on a full disk leaves its own open
    with appearing(path, STORAGE_REMEDY, expected) as draft, draft.open("wb") as file:
        # pyarrow's own copy of the schema would contain the ledger again, in base64
        writer = pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=level,
            use_dictionary=False,
            column_encoding=encodings,
            write_statistics=list(_WITH_STATISTICS) if schema.equals(TOKENS) else True,
            store_schema=False,
        )
        with writer:
            for rows in _row_groups(schema, tables):
                if shutil.disk_usage(draft.parent).free < rows.nbytes // 4:
                    raise OSError(errno.ENOSPC, "disk full")
                writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
            file.flush()
            record = data_record(draft, file.tell())
            writer.add_key_value_metadata({**(schema.metadata or {}), **record})


def _row_groups(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows in full row groups but for the last, whatever pieces they come in."""
    held = schema.empty_table()
    written = False
    for table in tables:
        held = pa.concat_tables([held, table.cast(schema)])
        whole = held.num_rows - held.num_rows % ROW_GROUP_ROWS
        for start in range(0, whole, ROW_GROUP_ROWS):
            yield held.slice(start, ROW_GROUP_ROWS).combine_chunks()
            written = True
        held = held.slice(whole)
    if held.num_rows or not written:
        yield held.combine_chunks()


def data_record(path: Path, size: int) -> dict[bytes, bytes]:
    """Footer metadata for a file of which `size` bytes have been written.

    Raises:
        OSError: it can't be read.
    """
    record = {"bytes": size, "sha256": sha256_of_beginning(path, size)}
    return {DATA_KEY: json.dumps(record).encode()}


def altered_files(paths: Iterable[Path]) -> list[Path]:
    """Those whose data differ from the hash in their footer, sorted.

    Files without one, of earlier versions, and files that can't be read are left out.
    """
    files = sorted(paths)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        same = pool.map(_is_same, files)
        return [path for path, is_same in zip(files, same, strict=True) if not is_same]


def _is_same(path: Path) -> bool:
    try:
        record = json.loads((pq.read_metadata(footer(path)).metadata or {})[DATA_KEY])
        return bool(sha256_of_beginning(path, int(record["bytes"])) == record["sha256"])
    except (KeyError, OSError, TypeError, ValueError, pa.ArrowException):
        return True


def sha256_of_beginning(path: Path, size: int) -> str:
    """sha256 of the first `size` bytes of a file or object, as hex digits.

    Raises:
        OSError, StorageError: it can't be read.
    """
    if not isinstance(path, RemotePath):
        return sha256_file(path, size)
    digest = hashlib.sha256()
    for chunk in path.chunks(size):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def reaching(workspace: Workspace, path: Path) -> Iterator[Path]:
    """Local path for a unit's file; a file for a bucket is uploaded when the block succeeds.

    Raises:
        StorageError: it can't be sent; it is kept, and `send_spooled` sends it later.
    """
    if isinstance(path, RemotePath):
        with path.uploading(workspace.store, workspace.spool) as kept:
            yield kept
    else:
        yield path


def send_spooled(workspace: Workspace) -> int:
    """Send what an earlier run could not send to a bucket; returns the number of units.

    Raises:
        StorageError: they can't be sent yet.
    """
    store = workspace.store
    return store.send_spooled(workspace.spool) if isinstance(store, RemotePath) else 0
