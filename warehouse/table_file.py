"""Tables that users bring, read by DuckDB: CSV, TSV, JSON and Parquet files, values as text.

Types are never guessed from the first rows: `2026-1-2` stays text, and `#1` is no comment. What a
value must be is said by the pydantic model that a row is parsed into.
"""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from pydantic import BaseModel, ValidationError

from warehouse.errors import TokenmartError
from warehouse.files import refuse_no_file

Parsed = TypeVar("Parsed", bound=BaseModel)

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
# every column of JSON as JSON, whose text is taken
_OBJECTS = "records = true, maximum_depth = 1, sample_size = -1, maximum_object_size = 268435456"
_READERS = {
    ".csv": "from read_csv($files, {}",
    ".tsv": "from read_csv($files, {}",
    ".json": f"select columns(*) ->> '$' from read_json($files, {_OBJECTS}",
    ".jsonl": f"select columns(*) ->> '$' from read_ndjson($files, {_OBJECTS}",
    ".ndjson": f"select columns(*) ->> '$' from read_ndjson($files, {_OBJECTS}",
    ".parquet": "from read_parquet($files",
}
SUFFIXES = tuple(_READERS)


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def load_rows(
    connection: duckdb.DuckDBPyConnection,
    files: Path | Sequence[str],
    table: str,
    *,
    as_json: bool = False,
) -> list[str]:
    """Make a table of files' rows: `row_number` from 1, then the files' own columns.

    Values of text files are text, empty ones null; Parquet's keep their types.

    Args:
        files: one file, or paths and addresses of several in one format that DuckDB reads.
        as_json: values of JSON files stay JSON, so that a number differs from its text.

    Returns:
        The files' columns.

    Raises:
        TokenmartError: they can't be read (`unreadable-table`); DuckDB's message has the line.
    """
    if isinstance(files, Path):
        refuse_no_file(files)
        files = [str(files)]
    shown = files[0]
    named = {"files": [each if "://" in each else glob.escape(each) for each in files]}
    plain = shown.lower().removesuffix(".gz")
    suffix = next((each for each in SUFFIXES if plain.endswith(each)), None)
    if suffix is None:
        raise TokenmartError(
            f"{shown}: no table; the name must end in {', '.join(SUFFIXES)}",
            code="unknown-suffix",
            where=shown,
        )
    reader = _READERS[suffix]
    if as_json:
        reader = reader.replace("columns(*) ->> '$'", "*")
    try:
        if "json" in suffix:
            _refuse_byte_order_marks(files)
        if suffix in _DELIMITERS:
            reader = reader.format(_csv_options(shown, _DELIMITERS[suffix]))
        # without the last setting a folder called score=9 would be a column
        connection.execute(
            f"create or replace table {table} as select row_number() over () as row_number, *"
            f" from ({reader}, hive_partitioning = false))",
            named,
        )
    except (duckdb.Error, csv.Error, gzip.BadGzipFile, EOFError, zlib.error) as error:
        # DuckDB goes on with settings that nobody can give here, and with its own query
        reason = re.split(r" (?:Possible|LINE \d+:)", " ".join(str(error).split()))[0][:300]
        raise TokenmartError(f"{shown}: {reason}", code="unreadable-table", where=shown) from error
    described = connection.execute(f"describe {table}").fetchall()
    columns = [str(row[0]) for row in described][1:]
    _refuse_renamed(connection, columns, suffix, named)
    return columns


def _refuse_renamed(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[str],
    suffix: str,
    named: dict[str, list[str]],
) -> None:
    """Stop at a column that DuckDB renamed: `A` beside `a` is `A_1`, as case is ignored.

    Raises:
        TokenmartError: `unreadable-table`.
    """
    folded = {name.lower() for name in columns}
    maybe = [
        name for name in columns if re.sub(r"_\d+$", "", name).lower() in folded - {name.lower()}
    ]
    if not maybe or suffix in _DELIMITERS:
        return
    keys = "select name from parquet_schema($files)"
    if suffix != ".parquet":
        keys = "select distinct unnest(json_keys(json)) from read_json_objects($files)"
    known = {name for (name,) in connection.execute(keys, named).fetchall()}
    for name in maybe:
        if name not in known:
            raise _column_twice(named["files"][0], name.rpartition("_")[0])


def _column_twice(file: str, name: str) -> TokenmartError:
    what = f"{file}: two columns are named {name!r}, letters of either case; rename one"
    return TokenmartError(what, code="unreadable-table", where=file)


def _refuse_byte_order_marks(files: Sequence[str]) -> None:
    """Stop at a JSON file that begins with U+FEFF; those at an address are not looked at."""
    for file in files:
        if "://" not in file:
            opened = gzip.open if file.lower().endswith(".gz") else open
            with opened(file, "rb") as content:
                if content.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
                    what = f"{file}: begins with a byte-order mark, which JSON doesn't have; "
                    what += "save it without"
                    raise TokenmartError(what, code="unreadable-table", where=file)


def _csv_options(file: str, delimiter: str) -> str:
    """Settings of DuckDB's reader as RFC 4180 has it, with the columns of the first line.

    Left alone, DuckDB would guess them, and take a later line for the header; at an address it may.
    """
    settings = f"header = true, delim = '{delimiter}', quote = '\"', escape = '\"'"
    if "://" in file:
        return f"{settings}, all_varchar = true, comment = ''"
    opened = gzip.open if file.lower().endswith(".gz") else open
    with opened(file, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
        names = [name.strip() for name in next(csv.reader(lines, delimiter=delimiter), [])]
    folded = [name.lower() for name in names]
    for name in names:
        if folded.count(name.lower()) > 1:
            raise _column_twice(file, name)
    columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in names)
    return f"{settings}, auto_detect = false, columns = {{{columns}}}"


def read_rows(path: Path, row: type[Parsed]) -> list[Parsed]:
    """A file's rows, each parsed as the model `row`; empty values are left out.

    Raises:
        TokenmartError: the file can't be read, or a row is wrong; code is pydantic's type.
    """
    return [parse_row(fields, row, place) for place, fields in plain_rows(path)]


def plain_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """A file's rows, not yet parsed: the place of each for messages, and its fields.

    Raises:
        TokenmartError: the file can't be read.
    """
    with duckdb.connect() as connection:
        names = load_rows(connection, path, "given")
        # a float32 of 0.1 is 0.1, as in a text file, and not 0.10000000149011612
        types = {name: kind for name, kind, *_ in connection.execute("describe given").fetchall()}
        columns = [
            f"cast({quoted(name)} as varchar)" if types[name] == "FLOAT" else quoted(name)
            for name in names
        ]
        query = f"select {', '.join(columns)} from given order by row_number"
        rows = connection.execute(query).fetchall()
    for number, values in enumerate(rows, start=1):
        yield f"{path}: row {number}", dict(zip(names, values, strict=True))


_IN_OUR_WORDS = {
    "missing": "no such column, or the row has no value in it",
    "float_parsing": "a number expected, such as 0.31 or 5000",
    "int_parsing": "a whole number expected, such as 5000",
    "finite_number": "a finite number expected; leave the value out where there is none",
    "extra_forbidden": "no column of this name is read",
}
"""pydantic's type of an error → what is said instead of its message."""


def parse_row(fields: dict[str, Any], row: type[Parsed], place: str) -> Parsed:
    """One row's fields as the model `row`; empty values are left out.

    Args:
        place: names file and row for messages.

    Raises:
        TokenmartError: with field and value; code is pydantic's type of the error.
    """
    try:
        return row.model_validate({k: v for k, v in fields.items() if v is not None and v != ""})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field = ".".join(map(str, first["loc"]))
    value = "" if first["type"] == "missing" else f"{first['input']!r}: "
    what = _IN_OUR_WORDS.get(first["type"], first["msg"])
    where = f"{place}: {field}"
    raise TokenmartError(
        f"{where}: {value}{what}", code=first["type"].replace("_", "-"), where=where
    )
