"""Default values of a cookbook query's parameters, chosen from the data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from warehouse.sql.queries import Query, Value, check_values

if TYPE_CHECKING:
    from warehouse.sql.session import Session

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


def parameters_of(recipe: Query, given: Mapping[str, Value], session: Session) -> dict[str, Value]:
    """A value for every parameter of a query: given, written in its file, or chosen.

    A choice is null where there is nothing to choose from: the query then has no rows.

    Args:
        recipe: the query; a parameter without a default must be one of `CHOICES`.
        given: these stay as they are.
        session: asked for the choices.

    Raises:
        TokenmartError: a value that nothing in the warehouse is called.
    """
    values: dict[str, Value] = {**recipe.defaults, **given}
    for name, question in CHOICES.items():
        if name not in values or name in given or values[name] is not None:
            continue
        known = {**values, name: None}
        used = {key: known.get(key) for key in re.findall(r"\$(\w+)", question)}
        with session.ask(question, used) as result:
            row = result.fetchone()
        values[name] = row[0] if row else None
    check_values(values, session.workspace)
    return values


def chosen_text(recipe: Query, given: Mapping[str, Value], values: Mapping[str, Value]) -> str:
    """Note on defaults that were chosen, or that there are none; empty if all were given."""
    open_ = [
        parameter.name
        for parameter in recipe.parameters
        if parameter.name in CHOICES and values[parameter.name] is None
    ]
    if open_:
        text = f"{recipe.name}: nothing was extracted to choose {', '.join(open_)} from"
        problem = values.get("problem") or "minilong --demo"
        # a condition alone may be missing because the problem has no such probe
        models = {"problem", "model", "model_a"}.intersection(open_)
        return f"{text}; run `tokenmart extract --problem {problem}`" if models else text
    chosen = [
        f"{parameter.name}={values[parameter.name]}"
        for parameter in recipe.parameters
        if parameter.default is None
        and parameter.name not in given
        and values[parameter.name] is not None
    ]
    return f"{recipe.name}: {' '.join(chosen)}" if chosen else ""
