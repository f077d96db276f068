"""The query cookbook: SQL files with a title, a sentence or two, and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.paths import Workspace
from warehouse.plugins import folders
from warehouse.store.schema import store_folders

if TYPE_CHECKING:
    from warehouse.sql.session import Session, Value

_PARAMETER = re.compile(r"-- param (\w+)(?: = (.*?))?(?:  -- (.*))?")
_MOST = 20
_MODELS = ("model", "model_a", "model_b")
_LISTS_OF_MODELS = ("models", "downstream")
"""Tables that have models without any answer or token, too."""
_CONDITIONS = ("condition", "short", "with_document", "without_document")

# The whole documents first: they are what the other conditions are compared with.
_MODEL = """
    select units.model_id
    from units
    left join models
        on units.problem = models.problem and units.model_id = models.model_id
    where units.problem = $problem
        and units.status = 'done'
        and units.condition_kind = 'full'
        and units.model_id is distinct from $model_a
    group by units.model_id
    order by any_value(models.base_id) is not null, count(*) desc, units.model_id
    limit 1
"""
# Of the models that the query is about, if it is about some.
_CONDITION = """
    select condition
    from units
    where problem = $problem
        and status = 'done'
        and condition_kind = '{kind}'
        and ($model is null or model_id = $model)
    group by condition
    order by count(*) desc, condition
    limit 1
"""
CHOICES = {
    "problem": """
        select problem
        from units
        where status = 'done'
        group by problem
        order by max(finished_at) desc, problem
        limit 1
    """,
    "model": _MODEL,
    "model_a": _MODEL,
    "model_b": _MODEL,
    "condition": _CONDITION.format(kind="full"),
    "short": _CONDITION.format(kind="window"),
    "with_document": _CONDITION.format(kind="retrieval_with_document"),
    "without_document": _CONDITION.format(kind="retrieval_without_document"),
}
"""Parameter → what its value is asked with, in this order: the extraction that ended last; an
original model (for `model_b` another than `model_a`) with most documents; such a condition."""


@dataclass(frozen=True)
class Parameter:
    """A `$name` of a query, with the value it has when none is given.

    default: None for one that is chosen from the warehouse's content (`CHOICES`).
    """

    name: str
    default: Value
    meaning: str


@dataclass(frozen=True)
class Query:
    """One cookbook query; `title` describes its answer."""

    name: str
    title: str
    parameters: tuple[Parameter, ...]
    sql: str

    @property
    def defaults(self) -> dict[str, Value]:
        """The value of each parameter when none is given; None for those that are chosen."""
        return {parameter.name: parameter.default for parameter in self.parameters}


def parse_value(name: str, text: str) -> Value:
    """A parameter's value: a whole number, a number, or text; names are text, also `2024`."""
    if name in (*CHOICES, "metric", "variant"):
        return text
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def list_queries() -> list[Query]:
    """All cookbook queries, by name."""
    return [_read(path) for _, path in sorted(_files().items())]


def find_query(name: str) -> Query:
    """The cookbook query with this name.

    Raises:
        TokenmartError: no such query; the message names the closest.
    """
    files = _files()
    if name not in files:
        raise TokenmartError(
            f"--name {name}: no such query in the cookbook; "
            f"{did_you_mean(name, files) or 'see tokenmart sql --list'}",
            code="unknown-query",
            where="--name",
        )
    return _read(files[name])


def _files() -> dict[str, Path]:
    """Query → its file, in this folder's `cookbook/` or a plugin's."""
    found: dict[str, Path] = {}
    for top in (Path(__file__).parent, *folders()):
        for path in sorted((top / "cookbook").glob("*.sql")):
            if path.stem in found:
                raise TokenmartError(f"{path}: {found[path.stem]} has this name; rename one")
            found[path.stem] = path
    return found


def _read(path: Path) -> Query:
    """A cookbook file: title, description, `-- param name = default  -- meaning`, then SQL."""
    sql = path.read_text(encoding="utf-8")
    prose, parameters = [], []
    for line in sql.splitlines():
        if not line.startswith("--"):
            break
        if hit := _PARAMETER.fullmatch(line):
            default = None if hit[2] is None else parse_value(hit[1], hit[2])
            parameters.append(Parameter(hit[1], default, hit[3] or ""))
        else:
            prose.append(line[2:].strip())
    if not prose:
        raise TokenmartError(f"{path}: must start with a comment line that says what it answers")
    return Query(path.stem, prose[0], tuple(parameters), sql)


def parameters_of(
    recipe: Query, given: Mapping[str, Value], session: Session
) -> tuple[dict[str, Value], str]:
    """A value for every parameter of a query: given, written in its file, or chosen.

    A choice is null where there is nothing to choose from: the query then has no rows.

    Args:
        recipe: the query; a parameter without a default must be one of `CHOICES`.
        given: these stay as they are.

    Returns:
        The values, and a note on those chosen; it is empty if all were given.

    Raises:
        TokenmartError: a value that nothing in the warehouse is called.
    """
    check_problem(given, session.workspace)
    values: dict[str, Value] = {**recipe.defaults, **given}
    for name, question in CHOICES.items():
        if name not in values or name in given or values[name] is not None:
            continue
        known = {**values, name: None}
        used = {key: known.get(key) for key in re.findall(r"\$(\w+)", question)}
        with session.ask(question, used) as result:
            rows = result.fetchall()
        values[name] = rows[0][0] if rows else None
    check_values(values, session.workspace)
    return values, _note(recipe, given, values)


def _note(recipe: Query, given: Mapping[str, Value], values: Mapping[str, Value]) -> str:
    chosen = [
        f"{name}={'(nothing extracted)' if values[name] is None else values[name]}"
        for name, default in recipe.defaults.items()
        if default is None and name in CHOICES and name not in given
    ]
    return f"{recipe.name}: {' '.join(chosen)}" if chosen else ""


def check_problem(given: Mapping[str, Value], workspace: Workspace) -> None:
    """Stop at a `problem` that nothing here is called, rather than answer with no rows.

    Args:
        workspace: the problems known are those of its data folder and its problem files.

    Raises:
        TokenmartError: no such problem; the message names the closest.
    """
    if "problem" in given:
        files = {path.stem for path in workspace.problems.glob("*.yml")}
        if given["problem"] not in files:
            known = files | _stored(workspace, "problem=*")
            _refuse_unknown("problem", given["problem"], known, "unknown-problem")


def check_values(values: Mapping[str, Value], workspace: Workspace) -> None:
    """Stop at a value that nothing here is called, rather than answer with no rows.

    Args:
        values: of a cookbook query's parameters: models, conditions and metric are looked up,
            others and null are not.

    Raises:
        TokenmartError: such a value; the message has the closest, or what there is.
    """
    problem = "*" if values.get("problem") is None else str(values["problem"])
    for name, value in values.items():
        known: Iterable[str] = ()
        if name in _MODELS:
            known = _stored(workspace, f"problem={problem}/model_id=*", _LISTS_OF_MODELS)
        elif name in _CONDITIONS:
            known = _stored(workspace, f"problem={problem}/model_id=*/condition=*")
        elif name == "metric":
            known = workspace.metric_names
        if known and value is not None:
            _refuse_unknown(name, value, known, "unknown-value")


def _refuse_unknown(name: str, value: Value, known: Iterable[str], code: str) -> None:
    if str(value) not in known:
        listed = sorted(known)
        there = f"there are {', '.join(listed[:_MOST])}{', …' * (len(listed) > _MOST)}"
        raise TokenmartError(
            f"--param {name}={value}: not here; {did_you_mean(str(value), listed) or there}",
            code=code,
            where=f"--param {name}",
        )


def _stored(workspace: Workspace, pattern: str, except_: Sequence[str] = ()) -> set[str]:
    """Values of the last key of a pattern of folders, in all tables of the store but these."""
    tables = [table for table in store_folders(workspace) if table.name not in except_]
    folders = {folder.name for table in tables for folder in table.glob(pattern)}
    return {folder.partition("=")[2] for folder in folders}
