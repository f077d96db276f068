"""`tokenmart compare`: two models of a problem by one metric, over the same documents or items."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from analysis.ranking.loading import nothing_built, read_parts, records
from analysis.ranking.results import BASELINES
from analysis.statistics.document_noise import Aggregation, DocumentParts
from analysis.statistics.paired import compare
from warehouse.errors import TokenmartError, did_you_mean
from warehouse.sql.connection import connect_read_only

if TYPE_CHECKING:
    from collections.abc import Iterable

    from warehouse.paths import Workspace
    from warehouse.problem.problem_files import Ranked

_VARIANTS = """
    select
        metric,
        variant,
        any_value(direction) as direction,
        coalesce(any_value(parameters), '{}') as parameters,
        list(distinct model_id order by model_id) as models
    from metric_parts
    left join metric_catalog using (metric, variant)
    where problem = ?
    group by metric, variant
    order by metric, variant
"""


def compare_models(
    workspace: Workspace, problem: Ranked, models: tuple[str, str], metric: str, seed: int
) -> dict[str, Any]:
    """Compare two models, named by model_id or full id; the target is not read.

    Args:
        metric: METRIC/VARIANT; empty for perplexity, in bits per byte where there is one.

    Returns:
        The record that `compare --json` prints.

    Raises:
        TokenmartError: no such model or metric, or no document with a value for both.
    """
    with connect_read_only(workspace) as connection:
        rows = records(connection, _VARIANTS, [problem.name])
        if not rows:
            raise nothing_built(problem)
        variants = {f"{row['metric']}/{row['variant']}": row for row in rows}
        baselines = [name for name in variants if name.partition("/")[0] in BASELINES]
        name = metric or min(baselines or variants, key=lambda name: ("byte" not in name, name))
        row = variants[_known(name, variants, "metric")]
        names = {model.full_id: model.model_id for model in problem.ranked_models}
        ids = [_known(names.get(model, model), row["models"], "model") for model in models]
        parts = read_parts(connection, (problem.name, row["metric"], row["variant"]), ids)
    settings = json.loads(row["parameters"])
    aggregation = settings.get("aggregation", "micro")
    has_parts = aggregation in get_args(Aggregation)
    comparison = compare(DocumentParts(parts, aggregation), seed) if has_parts else None
    if comparison is None:
        raise TokenmartError(
            f"{name}: no document has a ratio of sums for both {ids[0]} and {ids[1]}; choose "
            "another --metric",
            code="nothing-to-compare",
            where=name,
        )
    of = {"problem": problem.name, "metric": name, "direction": row["direction"]}
    return (
        of
        | {"last_step": settings.get("transform"), "model": ids[0], "other_model": ids[1]}
        | (asdict(comparison))
    )


def _known(name: str, known: Iterable[str], what: str) -> str:
    if name in known:
        return name
    first = ", ".join([*known][:10])
    raise TokenmartError(
        f"{what} {name!r}: has no values per document; {did_you_mean(name, known)}known: {first}",
        code=f"unknown-{what}",
        where=name,
    )
