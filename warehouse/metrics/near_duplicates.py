"""Near-duplicates: variants that rank the models alike, by Spearman's rank correlation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

LEAST_MODELS = 3
"""Two variants with fewer models in common have no correlation."""

# Ranks are among the models that have both values; ties share the mean of their places: the first
# and the last one's, halved.
_CORRELATIONS = f"""
    with given as (
        select problem, metric, variant, model_id, value
        from metric_values
        where value is not null and isfinite(value) and coalesce(problem = $problem, true)
    ),

    pairs as (
        select
            problem,
            asked.variant,
            other.metric as other_metric,
            other.variant as other_variant,
            (rank() over by_asked + count(*) over by_asked) / 2 as asked_rank,
            (rank() over by_other + count(*) over by_other) / 2 as other_rank
        from given as asked
        inner join given as other using (problem, model_id)
        where asked.metric = $metric
            and coalesce($variant in (asked.variant, split_part(asked.variant, '@', 1)), true)
            and (other.metric != $metric or other.variant != asked.variant)
        window
            by_asked as (
                partition by problem, asked.variant, other.metric, other.variant
                order by asked.value
            ),
            by_other as (
                partition by problem, asked.variant, other.metric, other.variant
                order by other.value
            )
    )

    select
        problem,
        variant,
        other_metric,
        other_variant,
        count(*) as models,
        corr(asked_rank, other_rank) as spearman
    from pairs
    group by problem, variant, other_metric, other_variant
    having models >= {LEAST_MODELS} and isfinite(spearman)
    qualify row_number() over (
        partition by problem, variant
        order by abs(spearman) desc, other_metric, other_variant
    ) <= $neighbours
    order by problem, variant, abs(spearman) desc, other_metric, other_variant
"""


def closest_variants(
    connection: duckdb.DuckDBPyConnection,
    metric: str,
    variant: str | None,
    problem: str | None,
    neighbours: int,
) -> list[dict[str, Any]]:
    """For each of the metric's variants (or one) the others that rank most alike, closest first.

    Pairs with fewer than `LEAST_MODELS` models in common, or without any spread, have none.
    """
    asked = {"metric": metric, "variant": variant, "problem": problem, "neighbours": neighbours}
    result = connection.execute(_CORRELATIONS, asked)
    names = [column[0] for column in result.description or []]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
