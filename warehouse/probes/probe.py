"""The interface of a probe, and the contexts that metrics of tokens have in a problem.

A kind of probe is defined in this package (and listed in `kinds.py`) or by a plugin: a
subclass of `Probe` with its parameters as fields, its conditions, and their requests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pydantic import Field

from warehouse.file_model import FileModel
from warehouse.probes.request import Condition, ConditionKind, DocumentTokens, Request

PROBE_NAME = r"^[a-z][a-z0-9_]{0,99}$"
CONTEXTS = (Path(__file__).parent / "contexts.sql").read_text(encoding="utf-8")
"""The rule of contexts: as a public view over what was extracted, and in `contexts` over a problem
file's conditions, before anything is."""
NO_PARAMETERS = {"kind", "name", "top_k"}
"""Fields of a probe that its rows do not depend on."""


class Probe(FileModel, ABC):
    """A probe of a problem file: an entry of its `probes`.

    A subclass declares `kind: Literal[…]`, its parameters as fields, `condition_kinds`,
    `conditions` and `requests`. It may give `name` a default.

    `top_k` of any probe: number of top-k tokens stored for each position, with their log-probs, in
    the side table `top_tokens`.
    """

    condition_kinds: ClassVar[tuple[ConditionKind, ...]]
    """The kinds of the conditions it creates."""

    kind: str
    name: str = Field(pattern=PROBE_NAME)
    top_k: int = Field(default=0, ge=0, le=1000)

    @abstractmethod
    def conditions(self) -> list[Condition]:
        """The context conditions it creates, one or several."""

    @abstractmethod
    def requests(self, condition: Condition, document: DocumentTokens) -> list[Request]:
        """What is scored of a document in one of its conditions; nothing if it is too short."""

    def parameters(self) -> dict[str, Any]:
        """Settings that its rows depend on, as JSON-able values, without kind and name."""
        return self.model_dump(mode="json", exclude=NO_PARAMETERS)

    def condition(
        self, kind: ConditionKind, *, suffix: str = "", seed: int = 0, **parameters: Any
    ) -> Condition:
        """A condition of this probe, named after it; `parameters` are the condition's own."""
        return Condition(
            name=f"{self.name}{suffix}",
            kind=kind,
            params=self.parameters() | parameters,
            probe=self.name,
            seed=seed,
            maker=self,
            top_k=self.top_k,
        )


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

    shorter: dict[str, list[str]] = {}
    for long, short in compare:
        shorter.setdefault(long, []).append(short)
    units = [("", each.name, each.kind.name, each.probe, True) for each in conditions]
    needed = [("", each.name, shorter.get(each.name, [])) for each in conditions]
    top_tokens = [("", each.name) for each in conditions if each.top_k]
    with duckdb.connect() as connection:
        connection.execute(
            "create table units (problem varchar, condition varchar, condition_kind varchar, "
            "probe varchar, is_needed boolean);"
            "create table needed (problem varchar, condition varchar, compared_with varchar[]);"
            "create table top_tokens (problem varchar, condition varchar)"
        )
        for table, rows in (("units", units), ("needed", needed), ("top_tokens", top_tokens)):
            for row in rows:
                marks = ", ".join("?" * len(row))
                connection.execute(f"insert into {table} values ({marks})", row)
        compared = connection.execute(
            "select needs, coalesce(context, '') as suffix, "
            "array_agg(condition) || coalesce(array_agg(short_condition), []) "
            f"from ({CONTEXTS}) group by all order by all"
        ).fetchall()
    return tuple(
        Context(needs, suffix, frozenset(filter(None, behind)))
        for needs, suffix, behind in compared
    )
