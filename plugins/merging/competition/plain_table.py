"""Tables with known columns, each value checked for its type: `plain` in a DuckDB connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from warehouse.errors import TokenmartError
from warehouse.table_file import load_rows


def read_plain(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    columns: Mapping[str, str],
    required: Sequence[str],
) -> None:
    """Make the table `plain` of a file's rows, with `row_number` and all of the columns.

    Args:
        path: CSV, TSV, JSON, JSON lines or Parquet.
        columns: column → type: varchar, double or bigint; those that the file lacks are null.
        required: columns it must have; their values may be empty.

    Raises:
        TokenmartError: it can't be read, has other columns (`unknown-column`, `missing-column`) or
            no row (`no-rows`), or a value isn't of its column's type (`wrong-value`).
    """
    given = load_rows(connection, path, "given")
    for name in required:
        if name not in given:
            what = f"{path}: column {name!r} is missing; the file has {', '.join(given)}"
            raise TokenmartError(what, code="missing-column", where=name)
    for name in given:
        if name not in columns:
            what = f"{path}: unknown column {name!r}; the columns are {', '.join(columns)}"
            raise TokenmartError(what, code="unknown-column", where=name)
    parts = [
        _typed(connection, path, name, kind) if name in given else f"cast(null as {kind})"
        for name, kind in columns.items()
    ]
    named = ", ".join(f"{part} as {name}" for part, name in zip(parts, columns, strict=True))
    connection.execute(f"create table plain as select row_number, {named} from given")
    if connection.execute("select count(*) from plain").fetchall() == [(0,)]:
        raise TokenmartError(f"{path}: contains no row", code="no-rows", where=path)


def _typed(connection: duckdb.DuckDBPyConnection, path: Path, name: str, kind: str) -> str:
    """The expression of a column; a value that isn't of its type is refused."""
    text = f"nullif(trim(cast({name} as varchar)), '')"
    if kind == "varchar":
        return text
    # a cast would round
    whole = f" or not regexp_full_match({text}, '-?\\d+(\\.0*)?')" if kind == "bigint" else ""
    bad = connection.execute(
        f"select row_number, {text} from given where {text} is not null "
        f"and (try_cast({text} as {kind}) is null{whole}) order by row_number limit 1"
    ).fetchone()
    if bad:
        where = f"{path}: row {bad[0]}: {name}"
        expected = "whole number" if kind == "bigint" else "number"
        what = f"{where} is {bad[1]!r}, expected a {expected}"
        raise TokenmartError(what, code="wrong-value", where=where)
    return f"cast({text} as {kind})"
