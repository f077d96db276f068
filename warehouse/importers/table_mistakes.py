"""Mistakes that concern a plain table as a whole, each with what to do."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import duckdb

from warehouse.errors import TokenmartError, did_you_mean

_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_SPOKEN = {"\t": "a tab"}
_MOST_NAMES = 6


def refuse_no_table(path: Path) -> None:
    """Refuse what can't be a table before anything reads it.

    Raises:
        TokenmartError: no such file, a folder, or an empty file.
    """
    if path.is_dir():
        raise TokenmartError(f"{path}: is a folder; name the table in it")
    if not path.is_file():
        raise TokenmartError(f"{path}: no such file; correct the path")
    with path.open("rb") as file:
        if not file.read(1 << 16).strip():
            raise TokenmartError(f"{path}: is empty; name a file with rows")


def refuse_separator(path: Path) -> None:
    """Refuse a CSV or TSV file whose first line has another separator than its suffix says.

    Raises:
        TokenmartError: it has.
    """
    wanted = _SEPARATORS.get(path.suffix.lower())
    with path.open("rb") as file:
        header = file.readline(1 << 16).decode("utf-8", "replace")
    if wanted is None or wanted in header:
        return
    for found in (";", "\t", "|", ","):
        if found in header:
            raise TokenmartError(
                f"{path}: {_SPOKEN.get(found, repr(found))} separates its columns, expected "
                f"{_SPOKEN.get(wanted, repr(wanted))} in a {path.suffix} file; save it again so, "
                "with a point in decimals"
            )


def check_columns(
    path: Path,
    given: Sequence[str],
    known: Sequence[str],
    required: Sequence[str],
    long: tuple[str, str] | None = None,
    is_number: Callable[[str], bool] = lambda name: False,
) -> None:
    """Refuse a table that lacks a column, or has one that isn't known.

    Args:
        path: for messages.
        given: its columns.
        known: all that it may have.
        required: those that it must have.
        long: the columns for name and value of a score, where tables are often wide instead.
        is_number: whether a given column contains numbers only.

    Raises:
        TokenmartError: one line with the column and what to do.
    """
    unknown = [name for name in given if name not in known]
    missing = [name for name in required if name not in given]
    listed = f"the columns are {', '.join(known)}"
    if missing and unknown:
        numbers = [name for name in unknown if is_number(name)]
        if long and len(numbers) > 1 and set(long) <= set(missing):
            raise TokenmartError(_wide(path, given, numbers, long))
        raise TokenmartError(
            f"{path}: {_named('column', missing)} missing; {_meant(missing, unknown)}; {listed}"
        )
    if missing:
        raise TokenmartError(f"{path}: {_named('column', missing)} missing; add it")
    if unknown:
        left = [name for name in known if name not in given]
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


def _meant(missing: Sequence[str], unknown: Sequence[str]) -> str:
    """Which column may be the missing one under another name."""
    for name in missing:
        close = did_you_mean(name, unknown)
        if close:
            return f"{close}rename that column to {name!r}"
    if len(missing) == len(unknown) == 1:
        return f"if {unknown[0]!r} is that column, rename it to {missing[0]!r}"
    return f"if some of {_list(unknown)} are those columns, rename them"


def _wide(path: Path, given: Sequence[str], numbers: Sequence[str], long: tuple[str, str]) -> str:
    name, value = long
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
