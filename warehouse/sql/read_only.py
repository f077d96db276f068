"""Ad-hoc SQL reads the warehouse and nothing else: DuckDB's own locks, and statements that read.

A locked database opens no file outside the Parquet folders and the marts, which are attached
read-only, loads no extension and keeps its configuration. One gap is left: where DuckDB may read a
file it may also write one. So only statements of a kind that writes no file are run, without COPY
inside and without functions that run SQL from a text or start a log.
"""

from __future__ import annotations

import glob
import re
from itertools import pairwise
from typing import Any

import duckdb

from warehouse.errors import TokenmartError
from warehouse.paths import Workspace
from warehouse.sql.bundle_views import bundle_folders
from warehouse.sql.views import quoted
from warehouse.store.schema import TABLES

LONGEST_TEXT = 100_000
"""Characters. DuckDB's planner doesn't hear interrupts; its time grows with the square of this."""
SETTINGS = (
    "TimeZone",
    "default_null_order",
    "default_order",
    "explain_output",
    "preserve_insertion_order",
)
"""Settings that a query may change."""

_LOCKED_FROM_THE_START = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_SPILLED = "50GiB"
# MULTI: a PIVOT. CREATE: in memory, as the marts are attached read-only.
_KINDS = {"SELECT", "MULTI", "EXPLAIN", "SET", "VARIABLE_SET", "CREATE"}
# They run SQL from a text, or (logs in DuckDB 1.5, whatever is locked) write a file.
_FUNCTIONS = re.compile(
    r"query|json_execute_serialized_sql|\w+_external_resource(_type)?|(en|dis)able_\w+"
)
_WORD = re.compile(rb'"?\w+|.', re.DOTALL)
_ONLY_READS = (
    "the warehouse is read-only here; save the rows of a select with --out FILE "
    "(in the shell: .save FILE)"
)


def open_database(memory: str | None) -> duckdb.DuckDBPyConnection:
    """An in-memory database for ad-hoc SQL; `lock` it once its views are made.

    Raises:
        TokenmartError: the memory limit is not a size.
    """
    config: dict[str, Any] = dict(_LOCKED_FROM_THE_START)
    if memory is not None:
        config["memory_limit"] = memory
    try:
        return duckdb.connect(":memory:", config=config)
    except duckdb.Error as error:
        raise TokenmartError(
            f"--memory {memory}: not a size; give one such as 4GiB or 800MiB"
        ) from error


def lock(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Open no file but those of the warehouse from now on, and let no setting change that."""
    read = [*(f"{workspace.store / table}/" for table in TABLES), *bundle_folders(workspace)]
    # DuckDB asks for a pattern before it asks for the files that match
    folders = ", ".join(map(quoted, dict.fromkeys([*read, *map(glob.escape, read)])))
    files = ", ".join(quoted(f"{workspace.database}{end}") for end in ("", ".wal"))
    for name, value in {
        "max_temp_directory_size": quoted(_SPILLED),
        "allowed_directories": f"[{folders}]",
        "allowed_paths": f"[{files}]",
        "allowed_configs": f"[{', '.join(map(quoted, SETTINGS))}]",
        "enable_external_access": "false",
        "lock_configuration": "true",
    }.items():
        connection.execute(f"set {name} = {value}")


def reading_statements(connection: duckdb.DuckDBPyConnection, sql: str) -> list[duckdb.Statement]:
    """The statements of a text, once all are known to write no file.

    Raises:
        TokenmartError: a statement or function that isn't allowed, or no statement.
        duckdb.Error: a mistake in the SQL.
    """
    try:
        encoded = sql.encode()
    except UnicodeEncodeError as error:
        raise TokenmartError("sql: the SQL is not valid UTF-8; save it as UTF-8") from error
    if len(sql) > LONGEST_TEXT:
        raise TokenmartError(
            f"sql: a text of {len(sql):,} characters; at most {LONGEST_TEXT:,} are read"
        )
    try:
        statements = connection.extract_statements(sql)
        kinds = [statement.type.name for statement in statements]
    except ValueError as error:  # a kind for which DuckDB's Python has no name
        raise TokenmartError(f"sql: a statement is not allowed, {_ONLY_READS}") from error
    if not statements:
        raise TokenmartError("sql: no statement given; try `tokenmart sql 'from models'`")
    for kind in kinds:
        if kind not in _KINDS:
            raise TokenmartError(f"sql: {kind} is not allowed, {_ONLY_READS}")
    tokens = [
        _WORD.match(encoded, start)[0].decode(errors="replace").lower()  # type: ignore[index]
        for start, kind in duckdb.tokenize(sql)
        if kind.name != "comment"
    ]
    for token, after in pairwise([*tokens, ""]):
        if token == "copy":
            raise TokenmartError(
                f'sql: COPY is not allowed, {_ONLY_READS}. A column of this name: "copy"'
            )
        if after == "(" and _FUNCTIONS.fullmatch(token.strip('"')):
            raise TokenmartError(f"sql: the function {token} is not allowed, {_ONLY_READS}")
    return statements
