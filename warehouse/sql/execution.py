"""Ad-hoc SQL: run read-only statements, explain mistakes in one line, write the rows out."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import duckdb

from warehouse.errors import StorageError, TokenmartError
from warehouse.sql.queries import Value
from warehouse.sql.views import damaged_file

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["table", "csv", "json", "parquet", "arrow"]
ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "table",
}

_READING = {"SELECT", "EXPLAIN", "PRAGMA", "SET", "CALL", "CREATE", "MULTI"}
_EXPLAIN = re.compile(
    r"(?:\s|--.*?\n|/\*.*?\*/)*explain\b(?:\s*\([^)]*\)|\s+analyze\b)?",
    re.IGNORECASE | re.DOTALL,
)
_BATCH_ROWS = 10_000
_WIDEST_CELL = 80


def execute(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Value]
) -> duckdb.DuckDBPyConnection:
    """Run statements; the connection then holds the rows of the last one.

    Raises:
        TokenmartError: a mistake in the SQL, a parameter too many or too few, or a statement
            that would write.
        StorageError: a Parquet file is damaged.
    """
    try:
        statements = connection.extract_statements(sql)
        if not statements:
            raise TokenmartError("sql: no statement given; try `tokenmart sql 'from models'`")
        wanted = {name for statement in statements for name in statement.named_parameters}
        _check_parameters(wanted, parameters)
        for statement in statements:
            kind = _kind(connection, statement)
            if kind not in _READING:
                raise TokenmartError(
                    f"sql: {kind} is not allowed, the warehouse is read-only here; "
                    "save the rows of a select with --out FILE (in the shell: .save FILE)"
                )
            own = {name: parameters[name] for name in statement.named_parameters}
            _interruptible(connection, statement, own or None)
    except duckdb.Error as error:
        raise _explain(error, connection) from error
    return connection


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
    result: duckdb.DuckDBPyConnection, format_: Format, out: Path | None, limit: int
) -> int:
    """Write the rows to standard output, or to a file that appears when it is complete.

    Args:
        result: a connection that holds rows.
        format_: `table` shows at most `limit` rows (0 = all); the others write every row.
        out: the file, or None for standard output.
        limit: see `format_`.

    Returns:
        How many rows `table` left out, at least (1 stands for 'more').

    Raises:
        TokenmartError: SQL failed while running, or Parquet or Arrow was asked for without a
            file.
        StorageError: the file can't be written.
    """
    if result.description is None:
        return 0
    try:
        if format_ in ("parquet", "arrow"):
            if out is None:
                raise TokenmartError(f"--format {format_}: give the file with --out FILE")
            _write_batches(result, format_, out)
            return 0
        with _destination(out) as stream:
            if format_ == "csv":
                writer = csv.writer(stream, lineterminator="\n")
                writer.writerow(_columns(result))
                writer.writerows(_batched(result))
            elif format_ == "json":
                _write_json(result, stream)
            else:
                return _write_table(result, stream, limit)
    except duckdb.Error as error:
        raise _explain(error, result) from error
    return 0


def _interruptible(
    connection: duckdb.DuckDBPyConnection,
    statement: duckdb.Statement,
    parameters: dict[str, Value] | None,
) -> None:
    """Execute in a thread: DuckDB doesn't look at signals, Ctrl-C would wait for its end."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        running = pool.submit(connection.execute, statement, parameters)
        try:
            running.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _kind(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> str:
    """What a statement does; `explain analyze` does what it explains."""
    kind = statement.type.name
    if kind == "EXPLAIN" and (explained := _EXPLAIN.match(statement.query)):
        inner = connection.extract_statements(statement.query[explained.end() :])
        return _kind(connection, inner[0]) if inner else kind
    return str(kind)


def _check_parameters(wanted: set[str], given: Mapping[str, Value]) -> None:
    if missing := sorted(wanted - set(given)):
        raise TokenmartError(f"--param {missing[0]}=…: the query needs a value for ${missing[0]}")
    if extra := sorted(set(given) - wanted):
        known = ", ".join(sorted(wanted)) or "none"
        raise TokenmartError(f"--param {extra[0]}: the query has no ${extra[0]}; it has: {known}")


def _explain(error: duckdb.Error, connection: duckdb.DuckDBPyConnection) -> TokenmartError:
    """DuckDB's message as one line with its candidates and the place."""
    message, _, place = str(error).partition("\n\nLINE ")
    text = " ".join(message.split())
    if damaged := damaged_file(error):
        return damaged
    if place:
        number, _, rest = place.partition(": ")
        source, _, caret = rest.partition("\n")
        column = caret.find("^") - len(f"LINE {number}: ")
        near = source[column : column + 30].split("\n")[0].strip() if column >= 0 else ""
        text += f" (line {number}" + (f", at `{near}`)" if near else ")")
    if "Table with name" in text and not _has_marts(connection):
        text += "; metric tables appear after `tokenmart dbt build`"
    return TokenmartError(f"sql: {text}")


def _has_marts(connection: duckdb.DuckDBPyConnection) -> bool:
    found = connection.execute("select count(*) from duckdb_databases() where not internal")
    row = found.fetchone()
    return row is not None and row[0] > 1


def _columns(result: duckdb.DuckDBPyConnection) -> list[str]:
    return [column[0] for column in result.description or []]


def _batched(result: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := result.fetchmany(_BATCH_ROWS):
        yield from rows


@contextmanager
def _destination(out: Path | None) -> Iterator[IO[str]]:
    if out is None:
        yield sys.stdout
        return
    with _appearing(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        yield stream


@contextmanager
def _appearing(out: Path) -> Iterator[Path]:
    """A file beside `out` that takes its place when the block has ended well."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(out)
    except OSError as error:
        raise StorageError(
            f"--out {out}: can't be written ({error.strerror or error}); choose another place"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def arrow_batches(result: duckdb.DuckDBPyConnection) -> pa.RecordBatchReader:
    """The rows as a stream of Arrow batches; until it is closed the connection is busy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the rows are copied
        return result.to_arrow_reader()


def _write_batches(result: duckdb.DuckDBPyConnection, format_: Format, out: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with (
        arrow_batches(result) as reader,
        _appearing(out) as temporary,
        temporary.open("wb") as stream,
    ):
        if format_ == "parquet":
            sink = pq.ParquetWriter(stream, reader.schema, compression="zstd")
        else:
            sink = pa.ipc.new_file(stream, reader.schema)
        with sink as writer:
            for batch in reader:
                writer.write_batch(batch)


def _write_json(result: duckdb.DuckDBPyConnection, stream: IO[str]) -> None:
    """A JSON list with one object per line; decimals become numbers, NaN and infinities null."""
    columns = _columns(result)
    separator = "["
    for row in _batched(result):
        record = dict(zip(columns, map(_finite, row), strict=True))
        stream.write(f"{separator}\n  {json.dumps(record, ensure_ascii=False, default=str)}")
        separator = ","
    stream.write("[]\n" if separator == "[" else "\n]\n")


def _finite(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    return value


def _write_table(result: duckdb.DuckDBPyConnection, stream: IO[str], limit: int) -> int:
    columns = _columns(result)
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
