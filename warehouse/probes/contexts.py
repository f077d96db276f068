"""The contexts that metrics of tokens have in a problem.

`contexts.sql` is the rule. It is the public view `contexts` over what was extracted; here it runs
over a problem file's conditions, before anything is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from warehouse.probes.request import Condition

CONTEXTS = (Path(__file__).parent / "contexts.sql").read_text(encoding="utf-8")


class Context(NamedTuple):
    """A context of metrics.

    needs: the kind of probe that a family needs, e.g. `window`, `retrieval`.
    suffix: what follows `@` in the names of its variants; empty for nothing.
    conditions: names of the conditions that a value is computed from.
    """

    needs: str
    suffix: str
    conditions: frozenset[str]


def contexts(
    conditions: Sequence[Condition], compare: Iterable[tuple[str, str]]
) -> tuple[Context, ...]:
    """The contexts of a problem, by kind of probe and name.

    Args:
        conditions: of all probes of the problem.
        compare: pairs of conditions that its file declares, the longer context first.
    """
    import duckdb

    of_probes = [(each.name, each.kind.name, each.probe) for each in conditions]
    with_choices = [(each.name,) for each in conditions if each.top_k]
    with duckdb.connect() as connection:
        for table, columns, rows in (
            ("units", ("condition", "condition_kind", "probe"), of_probes),
            ("condition_pairs", ("condition", "short_condition"), list(compare)),
            ("top_tokens", ("condition",), with_choices),
        ):
            types = ", ".join(f"{name} varchar" for name in columns)
            connection.execute(f"create table {table} ({types}, problem varchar default '')")
            for row in rows:
                marks = ", ".join("?" * len(row))
                connection.execute(f"insert into {table} by position values ({marks}, '')", row)
        found = connection.execute(
            "select needs, coalesce(context, '') as suffix, "
            "array_agg(condition) || coalesce(array_agg(short_condition), []) "
            f"from ({CONTEXTS}) group by all order by all"
        ).fetchall()
    return tuple(
        Context(needs, suffix, frozenset(filter(None, behind))) for needs, suffix, behind in found
    )
