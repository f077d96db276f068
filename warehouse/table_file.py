"""Tables that users bring, read by DuckDB: CSV, TSV, JSON and Parquet files, values as text.

Types are never guessed from the first rows: `2026-1-2` stays text, and `#1` is no comment. What a
value must be is said by the pydantic model that a row is parsed into.
"""

from __future__ import annotations

import csv
import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from pydantic import BaseModel, ValidationError

from warehouse.errors import TokenmartError
from warehouse.files import refuse_no_file

Parsed = TypeVar("Parsed", bound=BaseModel)

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_LONGEST_HEADER = 100_000
_LARGEST_OBJECT = 256 << 20
_READERS = {
    ".csv": "read_csv($files",
    ".tsv": "read_csv($files",
    ".json": f"read_json_objects($files, maximum_object_size = {_LARGEST_OBJECT}",
    ".jsonl": f"read_ndjson_objects($files, maximum_object_size = {_LARGEST_OBJECT}",
    ".ndjson": f"read_ndjson_objects($files, maximum_object_size = {_LARGEST_OBJECT}",
    ".parquet": "read_parquet($files",
}
SUFFIXES = tuple(_READERS)


def quoted(name: str) -> str:
    """A name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def load_rows(
    connection: duckdb.DuckDBPyConnection, files: Path | Sequence[str], table: str
) -> list[str]:
    """Make a table of files' rows: `row_number` from 1, then the files' own columns.

    Values of text files are text, empty ones null; Parquet's keep their types.

    Args:
        files: one file, or paths and addresses of several in one format that DuckDB reads.

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
    # without it a folder called score=9 would be a column
    source = f"{_READERS[suffix]}, hive_partitioning = false"
    if suffix in _DELIMITERS:
        source += _csv_options(shown, _DELIMITERS[suffix])
    try:
        if "json" in _READERS[suffix]:
            _load_objects(connection, f"{source})", named, table)
        else:
            connection.execute(
                f"create or replace table {table} as"
                f" select row_number() over () as row_number, * from {source})",
                named,
            )
    except duckdb.Error as error:
        # DuckDB goes on with settings that nobody can give here, and with its own query
        reason = re.split(r" (?:Possible|LINE \d+:)", " ".join(str(error).split()))[0][:300]
        raise TokenmartError(f"{shown}: {reason}", code="unreadable-table", where=shown) from error
    described = connection.execute(f"describe {table}").fetchall()
    return [str(row[0]) for row in described][1:]


def _csv_options(file: str, delimiter: str) -> str:
    """Settings of DuckDB's reader as RFC 4180 has it, with the columns of the first line.

    Left alone, DuckDB would guess them, and take a later line for the header; what is compressed or
    at an address is left to it.
    """
    settings = f", header = true, delim = '{delimiter}', quote = '\"', escape = '\"'"
    if "://" in file or file.lower().endswith(".gz"):
        return f"{settings}, all_varchar = true, comment = ''"
    with Path(file).open(encoding="utf-8-sig", errors="replace", newline="") as lines:
        first = lines.readline(_LONGEST_HEADER)
    try:
        names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    except csv.Error as error:  # before Python 3.11, of a character with the code 0
        raise TokenmartError(f"{file}: {error}", code="unreadable-table", where=file) from error
    known = {name.casefold() for name in names}  # SQL's names ignore case
    if not names or "" in known or len(known) < len(names):
        raise TokenmartError(
            f"{file}: its first line must name each column once, found {str(names)[:200]}",
            code="bad-header",
            where=f"{file}:1",
        )
    columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in names)
    return f"{settings}, auto_detect = false, columns = {{{columns}}}"


def _pointer(key: str) -> str:
    """The JSON pointer to a key of an object, inside a text of SQL."""
    return "/" + key.replace("~", "~0").replace("/", "~1").replace("'", "''")


def _load_objects(
    connection: duckdb.DuckDBPyConnection, source: str, named: dict[str, list[str]], table: str
) -> None:
    """Make a table of JSON objects, each key a column; numbers and lists are their JSON text."""
    connection.execute(
        "create or replace temp table objects as"
        f" select row_number() over () as row_number, json from {source}",
        named,
    )
    wrong = connection.execute(
        "select row_number, json_type(json) from objects where json_type(json) <> 'OBJECT'"
        " or len(json_keys(json)) > len(list_distinct(json_keys(json))) order by all limit 1"
    ).fetchone()
    if wrong:
        what = "has a key twice" if wrong[1] == "OBJECT" else f"is {wrong[1]}, expected an object"
        where = f"{named['files'][0]}: row {wrong[0]}"
        raise TokenmartError(f"{where} {what}", code="unreadable-table", where=where)
    names = connection.execute(
        "select name from (select unnest(json_keys(json)) as name, row_number from objects)"
        " group by name order by min(row_number), name"
    ).fetchall()
    columns = "".join(f", json ->> '{_pointer(name)}' as {quoted(name)}" for (name,) in names)
    connection.execute(
        f"create or replace table {table} as select row_number{columns} from objects"
    )


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
        query = "select * exclude (row_number) from given order by row_number"
        rows = connection.execute(query).fetchall()
    for number, values in enumerate(rows, start=1):
        yield f"{path}: row {number}", dict(zip(names, values, strict=True))


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
    found = "" if first["type"] == "missing" else f"{first['input']!r}: "
    where = f"{place}: {field}"
    raise TokenmartError(
        f"{where}: {found}{first['msg']}", code=first["type"].replace("_", "-"), where=where
    )
