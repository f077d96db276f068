with downstream as (
    select * from {{ source('extract', 'downstream') }}
),

asked as (
    select * from {{ source('extract', 'recall_items') }}
),

items as (
    select
        downstream.problem,
        downstream.model_id,
        asked.kind,
        asked.length,
        case when asked.depth is not null then least(floor(asked.depth * 8), 7) end as eighth,
        downstream.cluster,
        downstream.score
    from downstream
    inner join asked
        on downstream.problem = asked.problem
        and downstream.model_id = asked.model_id
        and downstream.task = asked.task
        and downstream.item = asked.item
),

means as (
    select
        problem,
        model_id,
        kind,
        length,
        eighth,
        avg(score) as score,
        count(*) as items,
        count(distinct cluster) as clusters
    from items
    group by problem, model_id, kind, length, eighth
),

cluster_residuals as (
    select
        items.problem,
        items.model_id,
        items.kind,
        items.length,
        items.eighth,
        items.cluster,
        sum(items.score - means.score) as residual
    from items
    inner join means
        on items.problem = means.problem
        and items.model_id = means.model_id
        and items.kind = means.kind
        and items.length = means.length
        and items.eighth is not distinct from means.eighth
    group by
        items.problem, items.model_id, items.kind, items.length, items.eighth, items.cluster
),

residual_sums as (
    select
        problem,
        model_id,
        kind,
        length,
        eighth,
        sum(residual ** 2) as residual_squares
    from cluster_residuals
    group by problem, model_id, kind, length, eighth
)

select
    means.problem,
    means.model_id,
    means.kind,
    cast(means.length as integer) as length,
    cast(means.eighth as integer) as eighth,
    cast(means.score as double) as score,
    cast(
        case
            when means.clusters > 1
                then sqrt(
                        residual_sums.residual_squares * means.clusters / (means.clusters - 1)
                    ) / means.items
        end as double
    ) as stderr,
    cast(means.items as bigint) as items,
    cast(means.clusters as bigint) as contexts
from means
inner join residual_sums
    on means.problem = residual_sums.problem
    and means.model_id = residual_sums.model_id
    and means.kind = residual_sums.kind
    and means.length = residual_sums.length
    and means.eighth is not distinct from residual_sums.eighth
