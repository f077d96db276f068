"""Parquet files: written whole, each with a checksum of itself and its place in the footer.

DuckDB 2.0 doesn't compare Parquet's page checksums when it reads: of 60 flipped bits, 54 gave
another number. So the footer has a sha256 of the whole file, which `warehouse.store.stored_files`
compares once per changed file, at the speed of the disk, and the file's place in the store: a file
that was exchanged for another model's is refused.
"""

from __future__ import annotations

import errno
import hashlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from warehouse.errors import StorageError, first_line
from warehouse.files import replacing
from warehouse.store.schema import TOKENS

CHECKSUM_KEY = b"tokenmart.sha256"
"""Footer key: sha256 of the file with this value's 64 digits as zeros."""

PLACE_KEY = b"tokenmart.place"
"""Footer key: the file's path from the table's folder on."""

ROW_GROUP_ROWS = 120_000

_ENCODINGS = {"rank": "PLAIN", "token_id": "PLAIN", "choice_id": "PLAIN"}
"""Measured on real extractions; other integers take deltas, floats a byte split. A byte split
would save 0.2 bytes a row on ranks too, but DuckDB 1.5, the last for Python 3.10, can't read it."""

_PUBLISHED_LEVEL = 15
_INTERCHANGEABLE = (
    pa.types.is_integer,
    pa.types.is_floating,
    lambda kind: kind in (pa.string(), pa.large_string(), pa.string_view()),
    pa.types.is_timestamp,
)
"""Kinds of types: readers take any type of the kind that the table's column has."""
_ZEROS = b"0" * 64
_VALUE_FOLLOWS = CHECKSUM_KEY + b"\x18\x40"
"""The key in the footer's Thrift, then the header of a text of 64 bytes."""
_MAGIC = b"PAR1"
_CHUNK_BYTES = 1 << 20


def write_table(path: Path, table: pa.Table, level: int = _PUBLISHED_LEVEL) -> None:
    """Write a Parquet file atomically: a reader sees the old file or the new one, whole.

    Args:
        level: zstd level.

    Raises:
        StorageError: the disk is full or the folder can't be written.
    """
    write_tables(path, table.schema, [table], level)


def write_tables(
    path: Path,
    schema: pa.Schema,
    tables: Iterable[pa.Table],
    level: int = _PUBLISHED_LEVEL,
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
    with replacing(path) as draft:
        with draft.open("wb") as file:
            # pyarrow's own copy of the schema would contain the ledger again, in base64
            writer = pq.ParquetWriter(
                file,
                schema,
                compression="zstd",
                compression_level=level,
                use_dictionary=False,
                column_encoding=encodings,
                write_statistics=with_statistics(schema),
                store_schema=False,
            )
            with writer:
                for rows in _row_groups(schema, tables):
                    if shutil.disk_usage(draft.parent).free < rows.nbytes // 4:
                        raise OSError(errno.ENOSPC, "disk full")
                    writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)
                record = {PLACE_KEY: place_in_store(path).encode(), CHECKSUM_KEY: _ZEROS}
                writer.add_key_value_metadata({**(schema.metadata or {}), **record})
        checksum = _checksum(draft)
        assert checksum is not None
        at, _, computed = checksum
        with draft.open("rb+") as file:
            file.seek(at)
            file.write(computed)


def with_statistics(schema: pa.Schema) -> list[str]:
    """The columns whose least and largest value a file records; of tokens, those that sort them.

    None of floats: a NaN is in no statistics, and DuckDB 2.0 answers `isnan(x)` and `x <= 1` from
    them alone (duckdb#25521).
    """
    if schema.equals(TOKENS):
        return ["doc_id", "segment", "position"]
    return [field.name for field in schema if not pa.types.is_floating(field.type)]


def refuse_other_types(path: Path, schema: pa.Schema) -> None:
    """Stop at a column of another program's file that a table can't have.

    It is of another type, or has NaN where statistics hide it.

    Args:
        schema: the table's; columns that a file lacks are not looked at.

    Raises:
        StorageError: names the column (`damaged-file`).
    """
    with pq.ParquetFile(path) as file:
        columns = {field.name: field.type for field in file.schema_arrow}
        for field in schema:
            stored = columns.get(field.name, field.type)
            stored = stored.value_type if pa.types.is_dictionary(stored) else stored
            is_alike = any(kind(stored) and kind(field.type) for kind in _INTERCHANGEABLE)
            if stored != field.type and not is_alike:
                what = f"its column {field.name} is {stored}, not {field.type}"
                raise damaged_file(path, what)
        hidden = _floats_with_statistics(file.metadata)
        for rows in file.iter_batches(columns=hidden) if hidden else ():
            for name in hidden:
                if pc.any(pc.is_nan(rows[name])).as_py():
                    raise damaged_file(path, f"its column {name} has NaN")


def _floats_with_statistics(metadata: pq.FileMetaData) -> list[str]:
    columns = [
        metadata.row_group(group).column(number)
        for group in range(metadata.num_row_groups)
        for number in range(metadata.num_columns)
    ]
    floats = [c for c in columns if c.physical_type in ("FLOAT", "DOUBLE") and c.is_stats_set]
    return sorted({column.path_in_schema for column in floats})


def _row_groups(schema: pa.Schema, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows in full row groups but for the last, whatever pieces they come in."""
    rest = schema.empty_table()
    written = False
    for table in tables:
        rest = pa.concat_tables([rest, table.cast(schema)])
        whole = rest.num_rows - rest.num_rows % ROW_GROUP_ROWS
        for start in range(0, whole, ROW_GROUP_ROWS):
            yield rest.slice(start, ROW_GROUP_ROWS).combine_chunks()
            written = True
        rest = rest.slice(whole)
    if rest.num_rows or not written:
        yield rest.combine_chunks()


def place_in_store(path: Path) -> str:
    """A path from its table's folder on: `models/problem=a/model_id=b/model.parquet`.

    Empty for a file outside the store: the store's own path has no `=` (see `find_workspace`).
    """
    for number, part in enumerate(path.parts):
        if "=" in part:
            return "/".join(path.parts[max(0, number - 1) :])
    return ""


def verified_checksum(path: Path) -> str:
    """The checksum in a file's footer, after it and the file's place were compared.

    Empty for a file of another program, which has neither.

    Raises:
        FileNotFoundError: no such file.
        StorageError: the file is damaged or another's.
    """
    try:
        metadata = pq.read_metadata(path).metadata or {}
        checksum = _checksum(path)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged_file(path, first_line(error)) from error
    if checksum is None:
        if metadata.keys() & {PLACE_KEY, CHECKSUM_KEY}:
            raise damaged_file(path, "its checksum is damaged")
        return ""
    _, recorded, computed = checksum
    if recorded != computed:
        raise damaged_file(path, "its bytes are not the ones that were written")
    written = metadata.get(PLACE_KEY, b"").decode(errors="replace")
    if written and written != place_in_store(path):
        raise damaged_file(path, f"it was written as {written}")
    return recorded.decode()


def _checksum(path: Path) -> tuple[int, bytes, bytes] | None:
    """Where the checksum's digits are in a file, the digits, and those of the file as it is."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        end = file.read(8)
        length = int.from_bytes(end[:4], "little")
        if len(end) < 8 or end[4:] != _MAGIC or length > size - 8:
            return None
        begin = size - 8 - length
        file.seek(begin)
        inside = file.read(length).find(_VALUE_FOLLOWS)
        if inside < 0:
            return None
        at = begin + inside + len(_VALUE_FOLLOWS)
        file.seek(0)
        digest = hashlib.sha256()
        left = at
        while left and (chunk := file.read(min(left, _CHUNK_BYTES))):
            digest.update(chunk)
            left -= len(chunk)
        recorded = file.read(len(_ZEROS))
        digest.update(_ZEROS)
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return at, recorded, digest.hexdigest().encode()


def read_table(
    path: Path, columns: Sequence[str] | None = None, schema: pa.Schema | None = None
) -> pa.Table:
    """Rows of a file of the store, after its checksum and place were compared.

    Args:
        columns: the ones to read, by default all.
        schema: expected types; by default the file's own.

    Raises:
        FileNotFoundError: no such file.
        StorageError: the file is damaged or another's.
    """
    verified_checksum(path)
    try:
        names = None if columns is None else list(columns)
        return pq.read_table(path, columns=names, schema=schema, partitioning=None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged_file(path, first_line(error)) from error


def damaged_file(path: Path, what: str) -> StorageError:
    """The error for a file that can't be relied on, with its remedy."""
    return StorageError(
        f"{path}: {what}; `tokenmart data check --repair` moves it away, then run the command that "
        "wrote it again: only what was lost is recomputed",
        code="damaged-file",
        where=path,
    )
