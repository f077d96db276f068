"""Rows of a query as a table, CSV, JSON, Parquet or Arrow, on standard output or in a file."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import duckdb

from warehouse.errors import TokenmartError, visible
from warehouse.files import replacing
from warehouse.sql.statements import explain
from warehouse.sql.text_table import text_table
from warehouse.sql.views import quoted
from warehouse.terminal import terminal_width

if TYPE_CHECKING:
    import pyarrow as pa

    from warehouse.sql.session import Session
    from warehouse.sql.statements import Value

Format = Literal["table", "csv", "json", "parquet", "arrow"]
ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "table",
}

_COPY_OPTIONS = {
    "csv": "format csv, header true",
    "json": "format json, array true",
    "parquet": "format parquet, compression zstd",
}
_TEXT_OR_NOT_FINITE = re.compile(rb'("(?:[^"\\]|\\.)*")|-?(?:NaN|Infinity)')
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Written:
    """Result of an export.

    rows: how many.
    left_out: rows that a table left out, at least (1 means 'more').
    narrowed: what a table left out to fit the terminal; empty for nothing.
    """

    rows: int
    left_out: int = 0
    narrowed: str = ""


def format_of(out: Path | None) -> Format:
    """The format a file's ending asks for; a table on standard output.

    Raises:
        TokenmartError: no such ending.
    """
    if out is None:
        return "table"
    if out.suffix not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise TokenmartError(
            f"--out {out}: unknown ending {out.suffix!r}; use one of {known}, or give --format"
        )
    return ENDINGS[out.suffix]


def write_rows(
    session: Session,
    sql: str,
    parameters: Mapping[str, Value],
    format_: Format,
    out: Path | None,
    limit: int,
    wide: bool = False,
) -> Written | None:
    """Write the rows to standard output, or to a file that appears when it is complete.

    Args:
        sql: statements; the rows are those of the last one.
        parameters: values of `$name` in the SQL.
        format_: `table` shows at most `limit` rows (0 = all); the others write every row.
        wide: whether a table may be wider than the terminal, with every column and whole texts.

    Returns:
        How many rows; None, and no file, for a statement that has none.

    Raises:
        TokenmartError: a mistake in the SQL, or Parquet or Arrow was asked for without a file.
        StorageError: the file can't be written, or a file of the warehouse can't be read.
    """
    if out is None and format_ in ("parquet", "arrow"):
        raise TokenmartError(f"--format {format_}: give the file with --out FILE")
    try:
        if format_ == "table":
            with session.ask(sql, parameters) as result:
                if result.description is None:
                    return None
                with _destination(out) as stream:
                    text = TextIOWrapper(stream, encoding="utf-8", newline="")
                    written = session.run(_write_table, result, text, limit, wide)
                    text.detach()
                return written
        with session.stream(sql, parameters) as reader:
            if reader is None:
                return None
            write = _write_arrow if format_ == "arrow" else partial(_copy, session, format_)
            with _destination(out) as stream:
                rows = session.run(write, reader, stream)
            return Written(rows)
    except duckdb.Error as error:
        raise explain(error) from error


@contextmanager
def _destination(out: Path | None) -> Iterator[BinaryIO]:
    if out is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with replacing(out) as draft, draft.open("wb") as stream:
        yield stream


def _write_arrow(reader: pa.RecordBatchReader, stream: BinaryIO) -> int:
    import pyarrow as pa

    rows = 0
    with pa.ipc.new_file(stream, reader.schema) as sink:
        for batch in reader:
            sink.write_batch(batch)
            rows += batch.num_rows
    return rows


def _copy(session: Session, format_: Format, reader: pa.RecordBatchReader, stream: BinaryIO) -> int:
    """DuckDB's COPY of the rows, in a database of its own: the user's stays read-only.

    It writes to a pipe and this process to the stream. So Ctrl-C is heard, standard output may be
    anything, and a full disk or a closed pipe is an OSError here rather than a text from DuckDB.
    """
    read_end, write_end = os.pipe()
    with duckdb.connect(":memory:") as writer, ThreadPoolExecutor(max_workers=1) as pool:
        writer.register("batches", reader)
        zones = [getattr(field.type, "tz", None) for field in reader.schema]
        # as the rows were asked for, not as the shell's TZ says
        zone = next(filter(None, zones), "UTC")
        writer.execute(f"set global TimeZone = {quoted(zone)}")

        def copy() -> int:
            target = f"'/dev/fd/{write_end}' ({_COPY_OPTIONS[format_]})"
            try:
                return int(writer.execute(f"copy batches to {target}").fetchall()[0][0])
            finally:
                os.close(write_end)

        copying = pool.submit(copy)
        try:
            with os.fdopen(read_end, "rb", buffering=_CHUNK_BYTES) as pipe:
                if format_ == "json":
                    stream.writelines(map(_finite, pipe))
                else:
                    shutil.copyfileobj(pipe, stream, _CHUNK_BYTES)
        except BaseException:
            session.interrupt()
            writer.interrupt()
            raise
        return copying.result()


def _finite(line: bytes) -> bytes:
    """A line of DuckDB's JSON with null for NaN and infinities, which JSON doesn't have."""
    if b"NaN" not in line and b"Infinity" not in line:
        return line
    return _TEXT_OR_NOT_FINITE.sub(lambda found: found[1] or b"null", line)


def _write_table(
    result: duckdb.DuckDBPyConnection, stream: TextIOWrapper, limit: int, wide: bool
) -> Written:
    names = [column[0] for column in result.description or []]
    rows = result.fetchmany(limit + 1) if limit else result.fetchall()
    shown = rows[:limit] if limit else rows
    if names == ["explain_key", "explain_value"]:
        stream.writelines(f"{visible(row[1])}\n" for row in shown)
        return Written(len(shown))
    to_file = stream.buffer is not sys.stdout.buffer
    width = None if to_file or wide else terminal_width()
    table = text_table(names, shown, width, whole=wide)
    stream.writelines(f"{line}\n" for line in table.lines)
    narrowed = ""
    if table.hidden or (width and table.cut):
        more = f" and {len(table.hidden) - 4} more" if len(table.hidden) > 4 else ""
        left_out = f"without {', '.join(table.hidden[:4])}{more}" if table.hidden else "texts cut"
        narrowed = f"to fit {width} columns: {left_out}"
    return Written(len(shown), len(rows) - len(shown), narrowed)
