"""Near-duplicates: variants that rank the models alike, by rank correlation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

LEAST_MODELS = 3
"""Two variants with fewer models in common have no correlation."""

_ROUNDING = 1e-9

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
    order by problem, variant, abs(spearman) desc, other_metric, other_variant
"""


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of two variants over the models both have a value for."""

    problem: str
    variant: str
    other_metric: str
    other_variant: str
    models: int
    spearman: float


@dataclass(frozen=True)
class NearDuplicates:
    """Variants that rank the models as the leader does, or in reverse."""

    problem: str
    leader: str
    members: tuple[Correlation, ...]


def correlate_variants(
    connection: duckdb.DuckDBPyConnection, metric: str, variant: str | None, problem: str | None
) -> list[Correlation]:
    """Correlations of the metric's variants (or one) with every other variant, closest first.

    Pairs with fewer than `LEAST_MODELS` models in common, or without any spread, have none.
    """
    rows = connection.execute(
        _CORRELATIONS, {"metric": metric, "variant": variant, "problem": problem}
    ).fetchall()
    return [Correlation(*row) for row in rows]


def is_near(pair: Correlation, threshold: float) -> bool:
    """Whether the absolute correlation reaches the threshold, rounding aside."""
    return abs(pair.spearman) >= threshold - _ROUNDING


def ranked(correlations: Iterable[Correlation]) -> Iterator[tuple[int, Correlation]]:
    """Each pair with its place among its variant's, from 1; they must come closest first."""
    counts: dict[tuple[str, str], int] = {}
    for pair in correlations:
        key = (pair.problem, pair.variant)
        counts[key] = counts.get(key, 0) + 1
        yield counts[key], pair


def group_near_duplicates(
    correlations: Iterable[Correlation], metric: str, threshold: float
) -> list[NearDuplicates]:
    """Split a metric's variants into groups; every member is as close to the group's leader.

    Leaders are taken greedily: the variant with most others within the threshold, ties by
    name. Variants without a near-duplicate make no group.
    """
    close: dict[tuple[str, str], dict[str, Correlation]] = {}
    for pair in correlations:
        if pair.other_metric == metric and is_near(pair, threshold):
            close.setdefault((pair.problem, pair.variant), {})[pair.other_variant] = pair
    groups = []
    while close:
        leader = min(close, key=lambda key: (-len(close[key]), key))
        problem, name = leader
        members = close[leader]
        if not members:
            break
        groups.append(
            NearDuplicates(problem, name, tuple(members[other] for other in sorted(members)))
        )
        gone = {name, *members}
        close = {
            key: {other: pair for other, pair in near.items() if other not in gone}
            if key[0] == problem
            else near
            for key, near in close.items()
            if key[0] != problem or key[1] not in gone
        }
    return sorted(groups, key=lambda group: (group.problem, group.leader))


_RANKINGS = """
    with valued as (
        select
            catalog.metric,
            catalog.variant,
            catalog.core,
            values.model_id,
            values.value,
            coalesce(values.reason, 'no row: no probe of its kind') as reason,
            values.value * if(catalog.direction = 'lower', 1, -1) as badness
        from metric_catalog as catalog
        left join metric_values as values
            on catalog.metric = values.metric
            and catalog.variant = values.variant
            and values.problem = $problem
        where values.model_id is not null
            or not exists (
                from metric_values as elsewhere
                where elsewhere.metric = catalog.metric and elsewhere.variant = catalog.variant
            )
    ),

    ranked as (
        select
            *,
            rank() over (
                partition by metric, variant
                order by case when isfinite(badness) then badness end nulls last
            ) as place
        from valued
    )

    select
        metric || ' ' || variant as name,
        list((model_id, if(isfinite(value), place, null)) order by model_id) as ranking,
        count(value) as models,
        mode(reason) filter (where value is null) as reason,
        bool_or(core) as core
    from ranked
    group by metric, variant
    order by metric, variant
"""


@dataclass(frozen=True)
class Census:
    """The different rankings among the variants of a problem.

    variants: names, `metric variant`.
    alike: groups of variants that put the models in exactly the same order, best first.
    without_value: a reason → the variants that have no value for any model because of it.
    rankings: different orders of the models, among variants with a value.
    core_variants, core_rankings: how many of them the default build makes.
    """

    problem: str
    variants: tuple[str, ...]
    rankings: int
    alike: tuple[tuple[str, ...], ...]
    without_value: dict[str, tuple[str, ...]]
    core_variants: int
    core_rankings: int


def take_census(connection: duckdb.DuckDBPyConnection, problem: str) -> Census:
    """Count the variants of a problem, their rankings, and those without value."""
    rows = connection.execute(_RANKINGS, {"problem": problem}).fetchall()
    groups: dict[object, list[str]] = {}
    missing: dict[str, list[str]] = {}
    core: set[object] = set()
    for name, ranking, models, reason, is_core in rows:
        if models:
            groups.setdefault(tuple(ranking), []).append(name)
            core |= {tuple(ranking)} if is_core else set()
        else:
            missing.setdefault(reason, []).append(name)
    return Census(
        problem,
        tuple(row[0] for row in rows),
        len(groups),
        tuple(tuple(names) for names in groups.values() if names[1:]),
        {reason: tuple(names) for reason, names in sorted(missing.items())},
        sum(bool(row[4]) for row in rows),
        len(core),
    )
