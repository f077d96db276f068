"""Rows of a query as a table, CSV, JSON, Parquet or Arrow, on standard output or in a file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal

import duckdb

from warehouse.errors import TokenmartError
from warehouse.files import appearing
from warehouse.sql.execution import explain

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb.sqltypes import DuckDBPyType

    from warehouse.sql.queries import Value
    from warehouse.sql.session import Session

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
_CHUNK_BYTES = 1 << 20
_WIDEST_CELL = 80


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
) -> int:
    """Write the rows to standard output, or to a file that appears when it is complete.

    Args:
        session: where the statements run.
        sql: statements; the rows are those of the last one.
        parameters: values of `$name` in the SQL.
        format_: `table` shows at most `limit` rows (0 = all); the others write every row.
        out: the file, or None for standard output.
        limit: see `format_`.

    Returns:
        How many rows `table` left out, at least (1 stands for 'more').

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
                    return 0
                with _destination(out) as stream:
                    text = TextIOWrapper(stream, encoding="utf-8", newline="")
                    left_out = _write_table(result, text, limit)
                    text.detach()
                return left_out
        with session.stream(sql, parameters) as reader:
            if reader is not None:
                with _destination(out) as stream:
                    _write_batches(session, reader, format_, stream)
    except duckdb.Error as error:
        raise explain(error) from error
    return 0


@contextmanager
def _destination(out: Path | None) -> Iterator[BinaryIO]:
    if out is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with appearing(out) as draft, draft.open("wb") as stream:
        yield stream


def _write_batches(
    session: Session, reader: pa.RecordBatchReader, format_: Format, stream: BinaryIO
) -> None:
    if format_ != "arrow":
        _copy(session, reader, format_, stream)
        return
    import pyarrow as pa

    with pa.ipc.new_file(stream, reader.schema) as sink:
        for batch in reader:
            sink.write_batch(batch)


def _copy(
    session: Session, reader: pa.RecordBatchReader, format_: Format, stream: BinaryIO
) -> None:
    """DuckDB's COPY of the rows, in a database of its own: the user's stays read-only.

    It writes to a pipe and this process to the stream. So Ctrl-C is heard, standard output may be
    anything, and a full disk or a closed pipe is an OSError here rather than a text from DuckDB.
    """
    read_end, write_end = os.pipe()
    with duckdb.connect(":memory:") as writer, ThreadPoolExecutor(max_workers=1) as pool:
        writer.register("batches", reader)
        rows = "batches" if format_ != "json" else f"(select {_json_columns(writer)} from batches)"

        def copy() -> None:
            try:
                writer.execute(f"copy {rows} to '/dev/fd/{write_end}' ({_COPY_OPTIONS[format_]})")
            finally:
                os.close(write_end)

        copying = pool.submit(copy)
        try:
            with os.fdopen(read_end, "rb", buffering=0) as pipe:
                shutil.copyfileobj(pipe, stream, _CHUNK_BYTES)
        except BaseException:
            session.interrupt()
            writer.interrupt()
            raise
        copying.result()


def _json_columns(writer: duckdb.DuckDBPyConnection) -> str:
    """All columns, with null for NaN and infinities, which JSON doesn't have."""
    rows = writer.table("batches")
    return ", ".join(
        f"{_finite(name, kind)} as {name}"
        for name, kind in zip(map(_identifier, rows.columns), rows.types, strict=True)
    )


def _finite(value: str, kind: DuckDBPyType, depth: int = 0) -> str:
    """An expression for `value` with null for every number in it that isn't finite."""
    if kind.id in ("float", "double"):
        return f"case when isfinite({value}) then {value} end"
    if kind.id not in ("list", "array", "struct", "map"):
        return value
    children: list[tuple[str, Any]] = kind.children
    item = f"item_{depth}"
    if kind.id in ("list", "array"):
        child = _finite(item, children[0][1], depth + 1)
        return f"list_transform({value}, lambda {item}: {child})"
    if kind.id == "struct":
        fields = ", ".join(
            f"{_identifier(name)} := {_finite(f'{value}.{_identifier(name)}', child, depth)}"
            for name, child in children
        )
        return f"case when {value} is not null then struct_pack({fields}) end"
    child = _finite(f"{item}.value", children[1][1], depth + 1)
    entry = f"struct_pack(key := {item}.key, value := {child})"
    return f"map_from_entries(list_transform(map_entries({value}), lambda {item}: {entry}))"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _write_table(result: duckdb.DuckDBPyConnection, stream: IO[str], limit: int) -> int:
    columns = [column[0] for column in result.description or []]
    rows = result.fetchmany(limit + 1) if limit else result.fetchall()
    shown = rows[:limit] if limit else rows
    if columns == ["explain_key", "explain_value"]:
        stream.writelines(f"{row[1]}\n" for row in shown)
        return 0
    cells = [[_cell(value) for value in row] for row in shown]
    widths = [
        max([len(name), *(len(row[place]) for row in cells)]) for place, name in enumerate(columns)
    ]
    numeric = [
        all(isinstance(row[place], int | float | Decimal | None) for row in shown)
        if shown
        else False
        for place in range(len(columns))
    ]
    stream.write(_line(columns, widths, numeric))
    stream.write("  ".join("─" * width for width in widths) + "\n")
    stream.writelines(_line(row, widths, numeric) for row in cells)
    if not rows:
        stream.write("(no rows)\n")
    return len(rows) - len(shown)


def _line(cells: list[str], widths: list[int], numeric: list[bool]) -> str:
    padded = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return "  ".join(padded).rstrip() + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        return f"{float(value):.6g}"
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(value))
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"
