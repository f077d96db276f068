"""Rows of CSV, TSV, JSON lines and Parquet files as text, read by the rules that the formats have.

A reader that guesses quotes, comments or types from the first rows takes `#1` for a comment, `'a'`
for a quoted name or `2026-1-2` for a date in one file and not in the next. Nothing is guessed here.
"""

from __future__ import annotations

import csv
import glob
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from warehouse.errors import TokenmartError
from warehouse.terminal import counted
from warehouse.text_file import ENCODING, parse_json, read_text, refuse_no_file, text_lines

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet")

_BATCH_ROWS = 50_000
_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_OWN_COLUMNS = "hive_partitioning = false"
"""Without it DuckDB takes `score=9` in the path for the column."""

_Columns = dict[str, list[str | None]]


def load_rows(connection: duckdb.DuckDBPyConnection, path: Path, table: str) -> list[str]:
    """Make a table of a file's rows with `row_number`, from 1, and its own columns.

    Values of text files are text, empty ones of JSON null; Parquet's keep their types.

    Args:
        path: CSV, TSV, JSON lines or Parquet.

    Returns:
        The file's columns.

    Raises:
        TokenmartError: it can't be read: file, line or row, and why.
    """
    _refuse_no_table(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise TokenmartError(
            f"{path}: suffix {path.suffix!r} is not one of {', '.join(SUFFIXES)}; rename or "
            "convert it"
        )
    if suffix == ".parquet":
        _load_parquet(connection, path, table)
    else:
        _refuse_separator(path)
        if suffix in _DELIMITERS:
            batches = _csv(path, _DELIMITERS[suffix])
        else:
            batches = _json_list(path) if suffix == ".json" else _json_lines(path)
        _load_text(connection, path, table, batches)
    described = connection.execute(f"describe {table}").fetchall()
    return [str(row[0]) for row in described][1:]


def _refuse_no_table(path: Path) -> None:
    """Refuse a missing file, a folder or an empty file."""
    if path.is_dir():
        raise TokenmartError(f"{path}: is a folder; name the table in it")
    refuse_no_file(path)
    with path.open("rb") as file:
        if not file.read(1 << 16).strip():
            raise TokenmartError(f"{path}: is empty; name a file with rows")


def _refuse_separator(path: Path) -> None:
    """Refuse a CSV or TSV file whose first line has another separator than its suffix says."""
    wanted = _DELIMITERS.get(path.suffix.lower())
    with path.open("rb") as file:
        header = file.readline(1 << 16).decode("utf-8", "replace")
    if wanted is None or wanted in header:
        return
    for found in (";", "\t", "|", ","):
        if found in header:
            raise TokenmartError(
                f"{path}: {_spoken(found)} separates its columns, expected "
                f"{_spoken(wanted)} in a {path.suffix} file; save it again so, "
                "with a point in decimals"
            )


def _spoken(separator: str) -> str:
    return "a tab" if separator == "\t" else repr(separator)


def _load_parquet(connection: duckdb.DuckDBPyConnection, path: Path, table: str) -> None:
    try:
        connection.execute(
            f"create table {table} as select row_number() over () as row_number, *"
            f" from read_parquet(?, {_OWN_COLUMNS})",
            [glob.escape(str(path))],
        )
    except duckdb.Error as error:
        reason = " ".join(str(error).split())[:200]
        raise TokenmartError(f"{path}: can't be read ({reason}); correct it") from error


def _load_text(
    connection: duckdb.DuckDBPyConnection, path: Path, table: str, batches: Iterator[_Columns]
) -> None:
    connection.execute(f"create table {table} (row_number bigint)")
    seen: dict[str, str] = {"row_number": "row_number"}
    count = 0
    for columns in batches:
        for name in columns:
            if name == "row_number":
                raise TokenmartError(f"{path}: a column is called {name!r}; rename or remove it")
            # SQL names ignore case
            if seen.setdefault(name.casefold(), name) != name:
                raise TokenmartError(
                    f"{path}: columns {seen[name.casefold()]!r} and {name!r} differ only in case; "
                    "rename one"
                )
        known = {str(row[0]) for row in connection.execute(f"describe {table}").fetchall()}
        for name in (name for name in columns if name not in known):
            quoted = '"' + name.replace('"', '""') + '"'
            connection.execute(f"alter table {table} add column {quoted} varchar")
        rows = len(next(iter(columns.values()), []))
        arrays = [pa.array(values, pa.string()) for values in columns.values()]
        numbers = pa.array(range(count + 1, count + rows + 1), pa.int64())
        batch = pa.table([numbers, *arrays], names=["row_number", *columns])
        connection.register("given_batch", batch)
        connection.execute(f"insert into {table} by name select * from given_batch")
        connection.unregister("given_batch")
        count += rows


def _csv(path: Path, delimiter: str) -> Iterator[_Columns]:
    """Batches of a file's columns; the first has no row.

    As RFC 4180 has it: quotes are `"`, doubled inside; lines end in any of the three ways.
    """
    try:
        with path.open(encoding=ENCODING, newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            names = [name.strip() for name in next(reader, [])]
            for place, name in enumerate(names):
                if not name or names.count(name) > 1:
                    said = f"is called {name!r} as another is" if name else "has no name"
                    raise TokenmartError(f"{path}: column {place + 1} {said}; rename or remove it")
            yield {name: [] for name in names}
            rows = _whole_rows(reader, names, path)
            while batch := list(islice(rows, _BATCH_ROWS)):
                yield {
                    name: [value.strip() or None for value in values]
                    for name, values in zip(names, zip(*batch, strict=True), strict=True)
                }
    except csv.Error as error:
        raise TokenmartError(
            f"{path}, line {reader.line_num}: not CSV ({error}); put values with quotes or line "
            'ends in "…", and double the quotes inside'
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _whole_rows(reader: Any, names: Sequence[str], path: Path) -> Iterator[list[str]]:
    for row in reader:
        if not row:  # a blank line
            continue
        if len(row) != len(names):
            raise TokenmartError(
                f"{path}, line {reader.line_num}: {counted(len(row), 'field')}, expected "
                f"{len(names)} as in the first line; correct the line (a separator within a value "
                "needs quotes)"
            )
        yield row


def _json_lines(path: Path) -> Iterator[_Columns]:
    """Batches of a file's columns, those that a row of the batch has."""
    objects = (_object(place, line) for place, line in text_lines(path))
    while batch := list(islice(objects, _BATCH_ROWS)):
        yield _by_column(batch)


def _json_list(path: Path) -> Iterator[_Columns]:
    """The rows of a JSON list, or of JSON lines in a file that is called .json."""
    text = read_text(path)
    if not text.lstrip().startswith("["):
        yield from _json_lines(path)
        return
    content = parse_json(text, str(path), unique=True)
    if not all(isinstance(row, dict) for row in content):
        raise TokenmartError(f"{path}: a row is not an object; write a list of objects")
    yield _by_column([{name: _text(value) for name, value in row.items()} for row in content])


def _by_column(rows: Sequence[dict[str, str | None]]) -> _Columns:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _object(place: str, line: str) -> dict[str, str | None]:
    content = parse_json(line, place, unique=True)
    if not isinstance(content, dict):
        raise TokenmartError(f"{place}: not an object; write one row a line")
    return {str(name): _text(value) for name, value in content.items()}


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, bool | dict | list) else repr(value)


def _unreadable(path: Path, error: Exception) -> TokenmartError:
    reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
    return TokenmartError(f"{path}: can't be read ({reason}); save it as UTF-8")
