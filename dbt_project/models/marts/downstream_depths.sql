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
        downstream.score,
        avg(downstream.score) over (
            partition by downstream.problem, downstream.model_id, asked.kind, asked.length, eighth
        ) as mean
    from downstream
    inner join asked using (problem, model_id, task, item)
),

-- Items of one cluster share a context: in a standard error they count as one.
clusters as (
    select
        problem,
        model_id,
        kind,
        length,
        eighth,
        mean,
        cluster,
        count(*) as items,
        sum(score - mean) as residual
    from items
    group by all
)

select
    problem,
    model_id,
    kind,
    length,
    cast(eighth as integer) as eighth,
    mean as score,
    sqrt(sum(residual ** 2) * count(*) / nullif(count(*) - 1, 0)) / sum(items) as stderr,
    cast(sum(items) as bigint) as items,
    count(*) as contexts
from clusters
group by problem, model_id, kind, length, eighth, mean
