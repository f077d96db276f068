"""The query cookbook: SQL files with a title, a sentence or two, and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warehouse.errors import TokenmartError, did_you_mean
from warehouse.plugins import folders

if TYPE_CHECKING:
    from warehouse.sql.session import Session, Value

_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?([0-9]*\.[0-9]+([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)")
_PARAMETER = re.compile(r"-- param (\w+)(?: = (.*?))?(?:  -- (.*))?")

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


def parse_value(name: str, text: str) -> Value:
    """A parameter's value: a whole number, a number, or text; names are text, also `2024`.

    What Python takes for a number besides (`2024_01`, `007`, `nan`) is text.
    """
    if name in (*CHOICES, "metric", "variant"):
        return text
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def list_queries() -> list[Query]:
    """All cookbook queries, by name: those in this folder's `cookbook/` and the plugins'."""
    tops = (Path(__file__).parent, *folders())
    files = {path.stem: path for top in tops for path in (top / "cookbook").glob("*.sql")}
    return [_read(path) for _, path in sorted(files.items())]


def find_query(name: str) -> Query:
    """The cookbook query with this name.

    Raises:
        TokenmartError: no such query; the message names the closest.
    """
    known = {query.name: query for query in list_queries()}
    if name not in known:
        raise TokenmartError(
            f"--name {name}: no such query in the cookbook; "
            f"{did_you_mean(name, known) or 'see tokenmart sql --list'}",
            code="unknown-query",
            where="--name",
        )
    return known[name]


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
    """
    values: dict[str, Value] = {p.name: p.default for p in recipe.parameters}
    values.update(given)
    chosen = []
    for name, question in CHOICES.items():
        if name in values and name not in given and values[name] is None:
            used = {key: values.get(key) for key in re.findall(r"\$(\w+)", question)}
            with session.stream(question, used) as rows:
                batches = rows.batches if rows else ()
                first_column = [value for batch in batches for value in batch[0].to_pylist()]
            values[name] = first_column[0] if first_column else None
            chosen.append(f"{name}={first_column[0] if first_column else '(nothing extracted)'}")
    return values, f"{recipe.name}: {' '.join(chosen)}" if chosen else ""
