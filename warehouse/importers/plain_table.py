"""Plain tables: CSV, JSON lines or Parquet with known columns, each value checked for its type."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import duckdb

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.importers.table_rows import load_rows

_MOST_NAMES = 6
OtherNames = Mapping[str, tuple[str, str]]
"""A name that files use, too → the column meant, and how its values are read."""


def read_plain(
    connection: duckdb.DuckDBPyConnection,
    path: Path,
    columns: Mapping[str, str],
    required: Sequence[str],
    other_names: OtherNames | None = None,
    long: tuple[str, ...] | None = None,
    contents: Mapping[str, str] | None = None,
    remedies: Mapping[str, str] | None = None,
) -> None:
    """Make the table `plain` of a file's rows, with `row_number` and all of the columns.

    Args:
        path: CSV, TSV, JSON lines or Parquet.
        columns: column → type: varchar, double or bigint; those that the file lacks are null.
        required: columns it must have, by any of their names.
        other_names: further names of columns.
        long: the columns for names and value of a score, where tables are often wide instead.
        contents: required column → what to write into it, for the message if it is missing.
        remedies: see `check_columns`.

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
        contents,
        remedies,
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


def check_columns(
    path: Path,
    given: Sequence[str],
    known: Sequence[str],
    required: Sequence[str],
    long: tuple[str, ...] | None = None,
    is_number: Callable[[str], bool] = lambda name: False,
    contents: Mapping[str, str] | None = None,
    remedies: Mapping[str, str] | None = None,
) -> None:
    """Refuse a table that lacks a column, or has one that isn't known.

    Args:
        long: the columns for names and value of a score, where tables are often wide instead.
        is_number: whether a given column contains numbers only.
        contents: column → what to write into it if it is missing.
        remedies: unknown column → what to do with it, if not only to remove it.

    Raises:
        TokenmartError: one line with the column and what to do.
    """
    unknown = [name for name in given if name not in known]
    missing = [name for name in required if name not in given]
    contents = contents or {}
    listed = f"the columns are {', '.join(known)}"
    if missing and unknown:
        numbers = [name for name in unknown if is_number(name)]
        names = [name for name in (long or ())[:-1] if name not in given]
        if long and len(numbers) > 1 and long[-1] in missing and names:
            raise TokenmartError(_wide(path, given, numbers, names[0], long[-1]))
        raise TokenmartError(
            f"{path}: {_misspelt(missing, unknown) or _unlike(missing, unknown)}; {listed}"
        )
    if missing:
        said = [f"{name}: {contents[name]}" for name in missing if name in contents]
        raise TokenmartError(
            f"{path}: {_named('column', missing)} missing; add "
            + ("it" if len(missing) == 1 else "them")
            + (f" ({'; '.join(said)})" if said else "")
        )
    if unknown:
        left = [name for name in known if name not in given]
        for name in unknown:
            if name in (remedies or {}):
                raise TokenmartError(f"{path}: unknown column {name!r}; {(remedies or {})[name]}")
        hint = did_you_mean(unknown[0], left) or "remove it; "
        raise TokenmartError(f"{path}: unknown column {unknown[0]!r}; {hint}{listed}")


def numbers_in(connection: duckdb.DuckDBPyConnection, table: str) -> Callable[[str], bool]:
    """Whether a column of a table contains numbers only."""

    def is_number(name: str) -> bool:
        column = '"' + name.replace('"', '""') + '"'
        text = f"nullif(trim(cast({column} as varchar)), '')"
        ((answer,),) = connection.execute(
            f"select count({text}) > 0 and count({text}) = count(try_cast({text} as double))"
            f" from {table}"
        ).fetchall()
        return bool(answer)

    return is_number


def _misspelt(missing: Sequence[str], unknown: Sequence[str]) -> str:
    """The unknown column that may be a missing one; empty if no name is close."""
    for name in unknown:
        if close := did_you_mean(name, missing):
            return f"unknown column {name!r}; {close.rstrip()} Rename it"
    return ""


def _unlike(missing: Sequence[str], unknown: Sequence[str]) -> str:
    """Missing columns, and the unknown ones that may be these."""
    start = f"{_named('column', missing)} missing; if "
    if len(missing) == len(unknown) == 1:
        return f"{start}{unknown[0]!r} is that column, rename it to {missing[0]!r}"
    return f"{start}some of {_list(unknown)} are those columns, rename them"


def _wide(path: Path, given: Sequence[str], numbers: Sequence[str], name: str, value: str) -> str:
    source, *kept = (
        '"' + each.replace('"', '""') + '"'
        for each in (str(path), *(each for each in given if each not in numbers))
    )
    columns = f"* exclude ({', '.join(kept)})" if kept else "*"
    query = f"from {source} unpivot include nulls ({value} for {name} in ({columns}))"
    target = json.dumps(str(path.with_name(f"{path.stem}-long.csv")), ensure_ascii=False)
    code = f'import duckdb; duckdb.sql("""{query}""").write_csv({target})'
    return (
        f"{path}: {_list(numbers)} look like a column each for every {name}; the table is a row "
        f"each, with the columns {name!r} and {value!r}: `python -c {shlex.quote(code)}` writes it"
    )


def _named(what: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{what} {names[0]!r} is"
    return f"{what}s {_list(names)} are"


def _list(names: Iterable[str]) -> str:
    found = [repr(name) for name in names]
    shown = found[:_MOST_NAMES]
    more = f" and {len(found) - _MOST_NAMES} more" if len(found) > _MOST_NAMES else ""
    return ", ".join(shown) + more
