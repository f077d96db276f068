"""Plain tables: CSV, JSON lines or Parquet with known columns, each value checked for its type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from warehouse.errors import TokenmartError
from warehouse.importers.table_mistakes import check_columns, numbers_in
from warehouse.importers.table_rows import load_rows

OtherNames = Mapping[str, tuple[str, str]]
"""A name that files use, too → the column meant, and how its values are read."""


def read_plain(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    columns: Mapping[str, str],
    required: Sequence[str],
    other_names: OtherNames | None = None,
    long: tuple[str, str] | None = None,
) -> None:
    """Make the table `plain` of a file's rows, with `row_number` and all of the columns.

    Args:
        connection: a database that may be written.
        path: CSV, TSV, JSON lines or Parquet.
        columns: column → type: varchar, double or bigint; those that the file lacks are null.
        required: columns it must have, by any of their names.
        other_names: further names of columns.
        long: the columns for name and value of a score, where tables are often wide instead.

    Raises:
        TokenmartError: it can't be read, has other columns or no row, or a value isn't of its
            column's type; one line with file, row, column, value and what to do.
    """
    given = load_rows(connection, path, "given")
    others = other_names or {}
    meant = _columns(path, given, columns, others)
    check_columns(
        path,
        given,
        [*columns, *others],
        [name for name in required if others.get(name, (name, ""))[0] not in meant],
        long,
        numbers_in(connection, "given"),
    )
    _type(connection, path, columns, meant)
    if connection.execute("select count(*) from plain").fetchall() == [(0,)]:
        raise TokenmartError(f"{path}: contains no row; nothing to score")


def _columns(
    path: Path, given: list[str], columns: Mapping[str, str], other_names: OtherNames
) -> dict[str, tuple[str, str]]:
    """Column → (name in the file, how its values are read), as far as they are known."""
    meant: dict[str, tuple[str, str]] = {}
    for name in given:
        column, how = other_names.get(name, (name, "{}"))
        if column in meant:
            raise TokenmartError(
                f"{path}: columns {meant[column][0]!r} and {name!r} say the same; remove one"
            )
        if column in columns:
            meant[column] = (name, how)
    return meant


def _type(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    columns: Mapping[str, str],
    meant: Mapping[str, tuple[str, str]],
) -> None:
    """Make the table `plain`; refuse a value that isn't of its column's type."""
    parts = []
    for column, kind in columns.items():
        name, how = meant.get(column, ("", ""))
        if not name:
            parts.append(f"cast(null as {kind}) as {column}")
            continue
        text = f"nullif(trim(cast({name} as varchar)), '')"
        if kind == "varchar":
            parts.append(f"{text} as {column}")
            continue
        # a cast would round
        whole = f" or not regexp_full_match({text}, '-?\\d+(\\.0*)?')" if kind == "bigint" else ""
        bad = connection.execute(
            f"select row_number, {text} from given where {text} is not null "
            f"and (try_cast({text} as {kind}) is null{whole}) order by row_number limit 1"
        ).fetchone()
        if bad:
            raise TokenmartError(
                f"{path}: row {bad[0]}: {name} is {bad[1]!r}, expected a "
                f"{'whole number' if kind == 'bigint' else 'number'}; correct the row"
            )
        parts.append(f"{how.format(f'cast({text} as {kind})')} as {column}")
    connection.execute(f"create table plain as select row_number, {', '.join(parts)} from given")
