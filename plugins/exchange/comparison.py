"""Compare the results of two labs on a problem: common parts and differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plugins.exchange.bundle import (
    Condition,
    SharedModel,
    SharedProblem,
    corpus_sha256,
)
from warehouse.problem.models import series_of

if TYPE_CHECKING:
    import duckdb

    from warehouse.problem.spec import Problem


@dataclass(frozen=True)
class Difference:
    """A difference; if `apart` is set, values with this difference are never compared."""

    what: str
    apart: bool


def describe(connection: duckdb.DuckDBPyConnection, problem: Problem, texts: bool) -> SharedProblem:
    """Facts about a problem in this store.

    Args:
        connection: a connection with the public views.
        problem: the problem.
        texts: whether documents' texts are shared.
    """
    documents = connection.execute(
        "select doc_id, sha256 from documents where problem = ?", [problem.name]
    ).fetchall()
    conditions = connection.execute(
        "select condition, any_value(condition_kind), any_value(probe_params) from units "
        "where problem = ? and status = 'done' group by condition order by condition",
        [problem.name],
    ).fetchall()
    run = connection.execute(
        "select model_id, list_sort(list(distinct dtype)), list_sort(list(distinct engine)) "
        "from units where problem = ? and status = 'done' group by model_id",
        [problem.name],
    ).fetchall()
    known = {model.model_id: model for model in problem.models}
    models = [
        SharedModel(
            model_id=model_id,
            full_id=known[model_id].full_id,
            family=known[model_id].family,
            kind=series_of(known[model_id]),
            parameters=known[model_id].parameters,
            dtypes=tuple(dtypes),
            engines=tuple(engines),
        )
        for model_id, dtypes, engines in sorted(run)
        if model_id in known
    ]
    tasks = connection.execute(
        "select task, max(items) from (select model_id, task, count(*) as items from downstream "
        "where problem = ? group by all) group by task order by task",
        [problem.name],
    ).fetchall()
    rows = connection.execute(
        "select cast(sum(rows) as bigint) from units where problem = ?", [problem.name]
    ).fetchall()
    return SharedProblem(
        title=problem.title,
        licence=problem.documents.licence,
        texts=texts,
        corpus=corpus_sha256(documents),
        documents=len(documents),
        conditions={name: Condition(kind=kind, params=p) for name, kind, p in conditions},
        models=tuple(models),
        tasks=dict(tasks),
        rows=rows[0][0] or 0,
    )


def differences(own: SharedProblem, other: SharedProblem) -> list[Difference]:
    """Differences between this lab's results on a problem and another lab's."""
    found = []
    if own.corpus != other.corpus:
        found.append(
            Difference(
                f"corpus: {own.documents} documents here, {other.documents} there, not the same",
                True,
            )
        )
    for name in sorted(own.conditions.keys() & other.conditions.keys()):
        mine, theirs = own.conditions[name], other.conditions[name]
        if mine != theirs:
            found.append(
                Difference(
                    f"condition {name}: {mine.kind} {mine.params} here, {theirs.kind} "
                    f"{theirs.params} there",
                    True,
                )
            )
    if own.tasks and other.tasks and own.tasks.keys() != other.tasks.keys():
        only = sorted(own.tasks.keys() ^ other.tasks.keys())
        found.append(Difference(f"target: {', '.join(only)} measured by one of you only", True))
    for name in sorted(own.conditions.keys() ^ other.conditions.keys()):
        where = "here" if name in own.conditions else "there"
        found.append(Difference(f"condition {name}: {where} only", False))
    for label, ours, others in (
        ("dtype", _used(own.models, "dtypes"), _used(other.models, "dtypes")),
        ("engine", _used(own.models, "engines"), _used(other.models, "engines")),
    ):
        if ours != others:
            found.append(
                Difference(f"{label}: {', '.join(ours)} here, {', '.join(others)} there", False)
            )
    both = {m.model_id for m in own.models} & {m.model_id for m in other.models}
    if both:
        found.append(Difference(f"in both, yours count: {', '.join(sorted(both))}", False))
    return found


def _used(models: Sequence[SharedModel], what: str) -> list[str]:
    return sorted({each for model in models for each in getattr(model, what)})
