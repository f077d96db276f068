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
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Literal

import duckdb

from warehouse.errors import StorageError, TokenmartError
from warehouse.queries import Value

Format = Literal["table", "csv", "json", "parquet"]

_READING = {"SELECT", "EXPLAIN", "PRAGMA", "SET", "CALL", "CREATE", "MULTI"}
_BATCH_ROWS = 10_000
_WIDEST_CELL = 60


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
            kind = statement.type.name
            if kind not in _READING:
                raise TokenmartError(
                    f"sql: {kind} is not allowed, the warehouse is read-only here; "
                    "use --out FILE to save the rows of a select"
                )
            own = {name: parameters[name] for name in statement.named_parameters}
            connection.execute(statement, own or None)
    except duckdb.Error as error:
        raise _explain(error, connection) from error
    return connection


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
        TokenmartError: SQL failed while running, or Parquet was asked for without a file.
    """
    if result.description is None:
        return 0
    try:
        if format_ == "parquet":
            if out is None:
                raise TokenmartError("--format parquet: give the file with --out FILE")
            _write_parquet(result, out)
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
    damaged = re.search(r"['\"]([^'\"]+\.parquet)['\"]", text)
    if damaged and "Catalog Error" not in text and "Binder Error" not in text:
        return StorageError(
            f"{damaged[1]}: damaged or unreadable ({text[:120]}); move it away and run "
            "tokenmart extract again: only its units are recomputed"
        )
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
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as stream:
            yield stream
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


def _write_parquet(result: duckdb.DuckDBPyConnection, out: Path) -> None:
    import pyarrow.parquet as pq

    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the rows are copied
        reader = result.to_arrow_reader()
    assert reader is not None
    try:
        with pq.ParquetWriter(temporary, reader.schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_batch(batch)
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)


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
