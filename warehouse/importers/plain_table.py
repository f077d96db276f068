"""Tables with known columns, each value checked for its type: `plain` in a DuckDB connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from warehouse.errors import TokenmartError
from warehouse.table_file import load_rows, quoted

OtherNames = Mapping[str, tuple[str, str]]
"""A name that files use, too → the column meant, and how its values are read."""


def read_plain(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    columns: Mapping[str, str],
    required: Sequence[str],
    other_names: OtherNames | None = None,
) -> None:
    """Make the table `plain` of a file's rows, with `row_number` and all of the columns.

    Args:
        path: CSV, TSV, JSON, JSON lines or Parquet.
        columns: column → type: varchar, double or bigint; those that the file lacks are null.
        required: columns it must have, by any of their names.
        other_names: further names of columns.

    Raises:
        TokenmartError: it can't be read, has other columns (`unknown-column`, `missing-column`) or
            no row (`no-rows`), or a value isn't of its column's type (`wrong-value`).
    """
    given = load_rows(connection, path, "given")
    others = other_names or {}
    meant = {others.get(name, (name, ""))[0] for name in given}
    missing = [name for name in required if others.get(name, (name, ""))[0] not in meant]
    check_columns(path, given, [*columns, *others], missing)
    found: dict[str, tuple[str, str]] = {}
    for name in given:
        column, how = others.get(name, (name, "{}"))
        if column in found:
            what = f"{path}: columns {found[column][0]!r} and {name!r} are the same; remove one"
            raise TokenmartError(what, code="column-twice", where=name)
        found[column] = (name, how)
    parts = [
        _typed(connection, path, kind, *found[column], column)
        if column in found
        else f"cast(null as {kind}) as {column}"
        for column, kind in columns.items()
    ]
    connection.execute(f"create table plain as select row_number, {', '.join(parts)} from given")
    if connection.execute("select count(*) from plain").fetchall() == [(0,)]:
        raise TokenmartError(f"{path}: contains no row", code="no-rows", where=path)


def _typed(
    connection: duckdb.DuckDBPyConnection, path: Path, kind: str, name: str, how: str, column: str
) -> str:
    """The expression of a column; a value that isn't of its type is refused."""
    text = f"nullif(trim(cast({quoted(name)} as varchar)), '')"
    if kind == "varchar":
        return f"{text} as {column}"
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
    return f"{how.format(f'cast({text} as {kind})')} as {column}"


def check_columns(
    path: Path, given: Sequence[str], known: Sequence[str], required: Sequence[str]
) -> None:
    """Refuse a table that lacks a column (`missing-column`), or has another (`unknown-column`).

    Raises:
        TokenmartError: one line with the column and those that there are.
    """
    for name in required:
        if name not in given:
            what = f"{path}: column {name!r} is missing; the file has {', '.join(given)}"
            raise TokenmartError(what, code="missing-column", where=name)
    for name in given:
        if name not in known:
            what = f"{path}: unknown column {name!r}; the columns are {', '.join(known)}"
            raise TokenmartError(what, code="unknown-column", where=name)
