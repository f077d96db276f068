"""What ad-hoc SQL may do: statements, functions and settings by list, files of the warehouse only.

Two locks, because each alone has a gap. The database is closed (`close_door`): it opens no file
outside the Parquet folders and the marts, and its configuration can't be changed. But what it may
read it may also write, so `reading_statements` lets only statements through that read.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import duckdb

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.others import folders_of_others
from warehouse.sql.views import quoted
from warehouse.store.schema import TABLES

LONGEST_STATEMENT = 100_000
"""Characters. DuckDB's planner doesn't hear interrupts; its time grows with the square of this."""

_CLOSED = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_SETTINGS = (
    "TimeZone",
    "default_null_order",
    "default_order",
    "explain_output",
    "preserve_insertion_order",
)
_SPILLED = "50GiB"
_QUERIES = {
    "(",
    "desc",
    "describe",
    "from",
    "pivot",
    "select",
    "show",
    "summarize",
    "table",
    "unpivot",
    "values",
    "with",
}
_IN_MEMORY = re.compile(r"create (or replace )?(temp |temporary )?(table|view|macro|function) ")
_SETTING = re.compile(r"(?:set|reset) (?:(?:session|local|global) )?(\S+)")
# What may follow `as (`: a query, a window, or an expression; DuckDB 2 takes a COPY there as well.
_AFTER_AS = _QUERIES | {
    "by",
    "case",
    "cast",
    "coalesce",
    "exists",
    "false",
    "groups",
    "interval",
    "not",
    "null",
    "order",
    "partition",
    "range",
    "rows",
    "true",
    "try_cast",
}
_TABLE_FUNCTIONS = {
    "generate_series",
    "glob",
    "icu_calendar_names",
    "json_each",
    "json_tree",
    "parquet_file_metadata",
    "parquet_full_metadata",
    "parquet_kv_metadata",
    "parquet_metadata",
    "parquet_scan",
    "parquet_schema",
    "pg_timezone_names",
    "query_table",
    "range",
    "read_parquet",
    "repeat",
    "repeat_row",
    "summary",
    "unnest",
}
_CATALOGUE = ("duckdb_", "pragma_")
_FUNCTIONS_OF_TABLES = (
    "select distinct function_name from duckdb_functions() where function_type in ('table', "
    "'pragma')"
)
_ONLY_READS = (
    "the warehouse is read-only here; save the rows of a select with --out FILE "
    "(in the shell: .save FILE)"
)


@dataclass(frozen=True)
class Token:
    """A word of SQL, as DuckDB's own parser cuts it; `word` is in lower case without quotes."""

    start: int
    kind: str
    word: str


def open_door(memory: str | None) -> duckdb.DuckDBPyConnection:
    """An in-memory database for strangers' SQL; `close_door` once its views are made.

    Raises:
        TokenmartError: the memory limit is not a size.
    """
    config: dict[str, Any] = {**_CLOSED, "python_enable_replacements": "false"}
    if memory is not None:
        config["memory_limit"] = memory
    try:
        return duckdb.connect(":memory:", config=config)
    except duckdb.Error as error:
        raise TokenmartError(
            f"--memory {memory}: not a size; give one such as 4GiB or 800MiB"
        ) from error


def close_door(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Open no file but those of the warehouse from now on, and let no setting change that."""
    own = [f"{workspace.store / table}/" for table in TABLES]
    read = [*own, *folders_of_others(workspace)]
    # DuckDB asks for a pattern before it asks for the files that match
    folders = ", ".join(map(quoted, dict.fromkeys([*read, *map(glob.escape, read)])))
    files = ", ".join(quoted(f"{workspace.database}{end}") for end in ("", ".wal"))
    settings = ", ".join(map(quoted, _SETTINGS))
    for name, value in {
        "max_temp_directory_size": quoted(_SPILLED),
        "allowed_directories": f"[{folders}]",
        "allowed_paths": f"[{files}]",
        "allowed_configs": f"[{settings}]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }.items():
        connection.execute(f"set {name} = {value}")


def reading_statements(connection: duckdb.DuckDBPyConnection, sql: str) -> list[str]:
    """The statements of a text, once all are known to read only.

    Raises:
        TokenmartError: a statement, function or setting that is not on the list, or no statement.
        duckdb.Error: a mistake in the SQL.
    """
    if any("\ud800" <= character <= "\udfff" for character in sql):
        raise TokenmartError("sql: not a text in UTF-8; write the statement in it")
    if len(sql) > LONGEST_STATEMENT:
        raise TokenmartError(
            f"sql: a text of {len(sql):,} characters; at most {LONGEST_STATEMENT:,} are read"
        )
    with suppress(ValueError):  # a kind of statement that DuckDB's Python has no name for
        connection.extract_statements(sql)
    statements = list(split(sql))
    if not statements:
        raise TokenmartError("sql: no statement given; try `tokenmart sql 'from models'`")
    known = {row[0] for row in connection.execute(_FUNCTIONS_OF_TABLES).fetchall()}
    refused = {
        name for name in known if name not in _TABLE_FUNCTIONS and not name.startswith(_CATALOGUE)
    }
    for _, tokens in statements:
        _refuse_statement(tokens)
        _refuse_functions(tokens, refused)
    return [text for text, _ in statements]


def split(sql: str) -> Iterator[tuple[str, list[Token]]]:
    """Each statement of a text with its words, comments left out."""
    encoded = sql.encode()
    begin, words = 0, list[Token]()
    for token in _tokens(sql, encoded):
        if token.word == ";" and token.kind != "identifier":
            if words:
                yield encoded[begin : token.start].decode(), words
            begin, words = token.start + 1, []
        elif token.kind != "comment":
            words.append(token)
    if words:
        yield encoded[begin:].decode(), words


def _tokens(sql: str, encoded: bytes) -> Iterator[Token]:
    found = duckdb.tokenize(sql)
    ends = [*(start for start, _ in found), len(encoded)][1:]
    for (start, kind), end in zip(found, ends, strict=True):
        yield Token(start, kind.name, _word(encoded[start:end].decode("utf-8", "replace")))


def _word(text: str) -> str:
    """A token without what DuckDB 1.5 leaves at its end: spaces and comments."""
    if text.startswith('"'):
        quoted_name = re.match(r'"((?:[^"]|"")*)"', text)
        return quoted_name[1].replace('""', '"').lower() if quoted_name else text
    word = re.match(r"\w+", text)
    return word[0].lower() if word else text[:1]


def _refuse_statement(tokens: list[Token]) -> None:
    words = [token.word for token in tokens]
    first = words[0]
    if first == "explain":
        rest = 1
        if words[1:2] == ["("]:
            rest = words.index(")") + 1 if ")" in words else len(words)
        elif words[1:2] == ["analyze"]:
            rest = 2
        if rest < len(tokens):
            _refuse_statement(tokens[rest:])
        return
    text = " ".join(words[:5]) + " "
    if first in ("set", "reset"):
        name = found[1] if (found := _SETTING.match(text)) else first
        if name != "variable" and name not in map(str.lower, _SETTINGS):
            raise TokenmartError(
                f"sql: {first} {name} is not allowed, the warehouse is read-only here; settings "
                f"that may change: {', '.join(_SETTINGS)}, variable"
            )
    elif first not in _QUERIES and first != "use" and not _IN_MEMORY.match(text):
        raise TokenmartError(f"sql: {first.upper()} is not allowed, {_ONLY_READS}")
    for place, token in enumerate(tokens):
        inside = _inside_as(words, place)
        if inside is None or tokens[inside].kind != "keyword":
            continue
        if words[inside] not in _AFTER_AS:
            raise TokenmartError(
                f"sql: {words[inside].upper()} inside {token.word} is not allowed, {_ONLY_READS}"
            )


def _inside_as(words: list[str], place: int) -> int | None:
    """Where the words begin that follow `as [not] [materialized] (`; None elsewhere."""
    if words[place] != "as":
        return None
    place += 1
    while place < len(words) and words[place] in ("not", "materialized"):
        place += 1
    opened = place
    while place < len(words) and words[place] == "(":
        place += 1
    return place if opened < place < len(words) else None


def _refuse_functions(tokens: list[Token], refused: set[str]) -> None:
    for token, after in pairwise(tokens):
        named = token.kind in ("identifier", "keyword") and token.word in refused
        if named and after.word == "(" and after.kind == "operator":
            raise TokenmartError(
                f"sql: the function {token.word} is not allowed, {_ONLY_READS}; tables and "
                "functions are listed by .tables in the shell"
            )
