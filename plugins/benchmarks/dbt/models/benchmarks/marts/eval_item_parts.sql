with item_metrics as (
    select * from {{ ref('eval_item_metrics') }}
),

items as (
    select * from {{ source('evals', 'eval_items') }}
),

-- items of one cluster share a text: together they are one document
clusters as (
    select
        problem,
        condition,
        cluster,
        min(item) as doc_id
    from items
    group by problem, condition, cluster
)

select
    item_metrics.problem,
    item_metrics.metric,
    concat(
        item_metrics.condition,
        if(item_metrics.filter = 'none', '', concat(':', item_metrics.filter))
    ) as variant,
    item_metrics.model_id,
    clusters.doc_id,
    sum(item_metrics.weight * item_metrics.value) as numerator,
    sum(item_metrics.weight) as denominator,
    sum(item_metrics.weight) as weight,
    cast(0 as bigint) as tokens
from item_metrics
inner join clusters using (problem, condition, cluster)
group by all
