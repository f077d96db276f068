"""The query cookbook: SQL files with a title, a sentence or two, and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.paths import Workspace

FOLDER = Path(__file__).parent / "cookbook"
_PARAMETER = re.compile(r"-- param (\w+)(?: = (.*?))?(?:  -- (.*))?")

Value = int | float | str | None


@dataclass(frozen=True)
class Parameter:
    """A `$name` of a query, with the value it has when none is given.

    default: None for one that is chosen from what the warehouse holds (`warehouse.sql.defaults`).
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
    """One cookbook query; `title` says what it answers."""

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

    Without ` = default`, the value is chosen from what the warehouse holds.

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
    known = {path.stem for path in workspace.problems.glob("*.yml")}
    for table in (workspace.documents, workspace.models, workspace.tokens):
        known |= {folder.name.partition("=")[2] for folder in table.glob("problem=*")}
    if name in known:
        return
    hint = did_you_mean(name, known).rstrip() or f"known: {', '.join(sorted(known)) or 'none'}"
    raise TokenmartError(f"problem {name!r}: no such problem here; {hint}")
