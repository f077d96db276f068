"""The query cookbook: SQL files with a title, a sentence or two, and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.paths import Workspace
from warehouse.remote import footer

FOLDER = Path(__file__).parent / "cookbook"
_PARTITIONS = {
    "model": "model_id=",
    "model_a": "model_id=",
    "model_b": "model_id=",
    "condition": "condition=",
    "short": "condition=",
    "with_document": "condition=",
    "without_document": "condition=",
}
"""Parameters that name a partition of the token store, and how its folder's name begins."""
_PARAMETER = re.compile(r"-- param (\w+)(?: = (.*?))?(?:  -- (.*))?")

Value = int | float | str | None


@dataclass(frozen=True)
class Parameter:
    """A `$name` of a query, with the value it has when none is given.

    default: None for one that is chosen from the warehouse's content (`warehouse.sql.defaults`).
    """

    name: str
    default: Value
    meaning: str

    @property
    def assignment(self) -> str:
        """`name=default`, with an ellipsis for one that is chosen."""
        return f"{self.name}={'…' if self.default is None else self.default}"


@dataclass(frozen=True)
class Query:
    """One cookbook query; `title` describes its answer."""

    name: str
    title: str
    description: str
    parameters: tuple[Parameter, ...]
    sql: str

    @property
    def defaults(self) -> dict[str, Value]:
        """The value of each parameter when none is given; None for those that are chosen."""
        return {parameter.name: parameter.default for parameter in self.parameters}


def parse_value(text: str) -> Value:
    """A parameter's value: a whole number, a number, or text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def read_query(path: Path) -> Query:
    """Parse a cookbook file: title line, description, `-- param name = default  -- meaning`.

    Without ` = default`, the value is chosen from the warehouse's content.

    Raises:
        TokenmartError: the file doesn't start with a title comment.
    """
    sql = path.read_text(encoding="utf-8")
    header = []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        header.append(line)
    if not header:
        raise TokenmartError(f"{path}: must start with a comment line that says what it answers")
    found = [_PARAMETER.fullmatch(line) for line in header]
    prose = [line[2:].strip() for line, hit in zip(header, found, strict=True) if not hit]
    return Query(
        name=path.stem,
        title=prose[0],
        description=" ".join(prose[1:]),
        parameters=tuple(
            Parameter(hit[1], None if hit[2] is None else parse_value(hit[2]), hit[3] or "")
            for hit in found
            if hit
        ),
        sql=sql,
    )


def list_queries() -> list[Query]:
    """All cookbook queries, by name."""
    return [read_query(path) for path in sorted(FOLDER.glob("*.sql"))]


def find_query(name: str) -> Query:
    """The cookbook query with this name.

    Raises:
        TokenmartError: no such query; the message names the closest.
    """
    path = FOLDER / f"{name}.sql"
    if re.fullmatch(r"\w+", name) and path.is_file():
        return read_query(path)
    close = did_you_mean(name, (path.stem for path in FOLDER.glob("*.sql")))
    hint = close.rstrip() or "see tokenmart sql --list"
    raise TokenmartError(f"--name {name}: no such query in the cookbook; {hint}")


def check_problem(given: Mapping[str, Value], workspace: Workspace) -> None:
    """Stop at a `problem` that nothing here is called, rather than answer with no rows.

    Args:
        given: values of parameters.
        workspace: the problems known are those of its data folder and its problem files.

    Raises:
        TokenmartError: no such problem; the message names the closest.
    """
    if "problem" not in given:
        return
    name = str(given["problem"])
    known = {path.stem for path in workspace.problems.glob("*.yml")} | set(
        _problems_here(workspace)
    )
    if name in known:
        return
    hint = did_you_mean(name, known).rstrip() or f"known: {', '.join(sorted(known)) or 'none'}"
    raise TokenmartError(f"problem {name!r}: no such problem here; {hint}")


def _problems_here(workspace: Workspace) -> list[str]:
    """Problems of which the data folder contains something, sorted."""
    tables = (workspace.documents, workspace.models, workspace.tokens, workspace.downstream)
    folders = (folder.name for table in tables for folder in table.glob("problem=*"))
    return sorted({name.partition("=")[2] for name in folders})


def check_values(values: Mapping[str, Value], workspace: Workspace) -> None:
    """Stop at a value that nothing here is called, rather than answer with no rows.

    Args:
        values: of a cookbook query's parameters: problem, models, conditions, document and metric
            are looked up, others and null are not.
        workspace: where they are known from.

    Raises:
        TokenmartError: such a value; the message has the closest, or what there is.
    """
    problem = "*" if values.get("problem") is None else str(values["problem"])
    for name, given in values.items():
        known = [] if given is None else _known(name, problem, workspace)
        value = str(given)
        if not known or value in known:
            continue
        hint = did_you_mean(value, known).rstrip() if name != "document" else ""
        hint = hint or f"there are {', '.join(known[:20])}{', …' if len(known) > 20 else ''}"
        raise TokenmartError(f"--param {name}={value}: not in problem {problem}; {hint}")


def _known(name: str, problem: str, workspace: Workspace) -> list[str]:
    """Possible values of a parameter of this name, sorted; empty if unknown."""
    if name in _PARTITIONS:
        start = _PARTITIONS[name]
        folders = f"problem={problem}/{'*/' * (start == 'condition=')}{start}*"
        return sorted({path.name.removeprefix(start) for path in workspace.tokens.glob(folders)})
    if name == "metric":
        return sorted(path.stem for path in (workspace.dbt_project / "variants").glob("*.csv"))
    table = workspace.documents / f"problem={problem}" / "documents.parquet"
    if name == "document" and table.is_file():
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return list(map(str, range(-1, pq.read_metadata(footer(table)).num_rows)))
        except (OSError, pa.ArrowException):  # a reader of it names the file
            return []
    return []
