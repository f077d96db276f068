"""The state of a problem: what its numbers are made from, as one hash and its named parts.

The dbt plugin writes the state of each problem's data to `main.problem_states` when a run begins;
at its end, the macro `record_build` copies them to `main.built_tables` for each model that was
built, with the SQL of the model. Everything that asks whether a number is of the present state
compares the two states of `read_states`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import duckdb

from warehouse.errors import StorageError
from warehouse.paths import Workspace
from warehouse.plugins import folders
from warehouse.probes.probe import CONTEXTS
from warehouse.problem.unit_states import UNIT_STATUS
from warehouse.sql.connection import connect_read_only, connect_to_parquet
from warehouse.sql.views import VIEWS
from warehouse.store.stored_files import files_sha256

_LINES = (Path(__file__).parent / "problem_states.sql").read_text(encoding="utf-8")

_BUILT = """
    with recursive above (model) as (
        select unnest($marts)
        union
        select unnest(parents) from main.built_tables inner join above using (model)
    )

    select distinct sources, parts
    from main.built_tables
    inner join above using (model)
    where problem = $problem
"""


@dataclass(frozen=True)
class ProblemState:
    """What a problem's numbers are made from.

    Attributes:
        parts: hash by name: `problem file`, `texts`, `units`, `other tables`, `macros and views`,
            and each SQL file by its path from the dbt project.
    """

    parts: Mapping[str, str]

    @cached_property
    def sha256(self) -> str:
        """One hash of all parts."""
        lines = "".join(f"{name} {value}\n" for name, value in sorted(self.parts.items()))
        return hashlib.sha256(lines.encode()).hexdigest()


@dataclass(frozen=True)
class BuildState:
    """The state that tables of the database were built from, and the present one.

    Attributes:
        built: None where no build was recorded.
        current: with the parts of `built`.
    """

    built: ProblemState | None
    current: ProblemState

    @property
    def changed(self) -> list[str]:
        """Names of the parts that have changed since the build; none where it isn't recorded."""
        if self.built is None:
            return []
        built, current = self.built.parts, self.current.parts
        names = sorted({**built, **current})
        return [name for name in names if built.get(name) != current.get(name)]


UNRECORDED = BuildState(None, ProblemState({}))
"""The state of tables that no build has recorded."""


def read_states(workspace: Workspace, problem: str, marts: Sequence[str]) -> BuildState:
    """The state that tables were built from, and the present state of what they are built from.

    Args:
        marts: names of the tables; everything that dbt builds them from counts.

    Raises:
        StorageError: a file of a table is damaged.
    """
    rows: list[tuple[list[str], dict[str, str]]] = []
    # the build of an earlier version is not recorded
    with suppress(duckdb.Error, StorageError), connect_read_only(workspace) as connection:
        rows = connection.execute(_BUILT, {"marts": list(marts), "problem": problem}).fetchall()
    built = [source.rsplit(" ", 1) for sources, _ in rows for source in sources]
    built += [[name, value] for _, parts in rows for name, value in parts.items()]
    with connect_to_parquet(workspace) as connection:
        current = _data_parts(connection, workspace).get(problem, {})
    current |= {path: _sql_md5(workspace.dbt_project / path) for sources, _ in rows
                for path in (source.rsplit(" ", 1)[0] for source in sources)}  # fmt: skip
    return BuildState(_merged(built) if rows else None, ProblemState(current))


def _merged(parts: Iterable[Sequence[str]]) -> ProblemState:
    """Parts of several tables as one state: what differs between them is none of a state's."""
    values: dict[str, set[str]] = {}
    for name, value in parts:
        values.setdefault(name, set()).add(value)
    return ProblemState({name: " ".join(sorted(found)) for name, found in values.items()})


def write_states(connection: duckdb.DuckDBPyConnection, workspace: Workspace) -> None:
    """Write the present state of every problem's data, for a build that begins.

    Args:
        connection: to the database that is built, with the public views.
    """
    connection.execute(
        "create or replace table main.problem_states (problem varchar, parts map(varchar, varchar))"
    )
    for problem, parts in sorted(_data_parts(connection, workspace).items()):
        connection.execute("insert into main.problem_states values (?, ?)", [problem, parts])


def _data_parts(
    connection: duckdb.DuckDBPyConnection, workspace: Workspace
) -> dict[str, dict[str, str]]:
    """Hash by part, of all problems that have data."""
    shared = {"macros and views": _macros_sha256(workspace)}
    parts_of: dict[str, dict[str, str]] = {}
    for problem, part, sha256 in connection.execute(_LINES).fetchall():
        parts_of.setdefault(problem, dict(shared))[part] = sha256
    for problem, sha256 in files_sha256(workspace).items():
        parts_of.setdefault(problem, dict(shared))["other tables"] = sha256
    return parts_of


def _macros_sha256(workspace: Workspace) -> str:
    """Hash of the SQL that is in no model: dbt's macros, and the public views and macros."""
    tops = [workspace.dbt_project, *(folder / "dbt" for folder in folders())]
    files = [path for top in tops for path in sorted((top / "macros").glob("**/*.sql"))]
    macros = [
        Path(__file__).parent / "macros.sql",
        *(folder / "macros.sql" for folder in folders()),
    ]
    texts = [path.read_text(encoding="utf-8") for path in [*files, *macros] if path.is_file()]
    content = "\n".join([UNIT_STATUS, VIEWS, CONTEXTS, *texts])
    return hashlib.sha256(content.encode()).hexdigest()


def _sql_md5(path: Path) -> str:
    """Hash of a model's file as the macro `record_build` has it; empty for a file that is gone."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return ""
    return hashlib.md5(text.strip().encode(), usedforsecurity=False).hexdigest()
