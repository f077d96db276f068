-- Difference of two models on a task, item by item (needs `tokenmart dbt build`)
-- Items that share a text are one cluster for the standard error. Tasks: select distinct condition
-- from eval_metrics; differences of perplexities are in nats.
-- param problem  -- which problem
-- param measure = acc  -- metric of eval_metric_catalog
-- param model_a  -- the reference model
-- param model_b  -- the model compared with it
with pairs as (
    select
        other.condition,
        other.filter,
        other.cluster,
        other.weight,
        other.value - base.value as difference
    from eval_item_metrics as base
    inner join eval_item_metrics as other
        using (problem, condition, item, filter, metric)
    where base.problem = $problem
        and base.metric = $measure
        and base.model_id = $model_a
        and other.model_id = $model_b
),

with_mean as (
    select
        *,
        sum(weight * difference) over task / sum(weight) over task as mean
    from pairs
    window task as (partition by condition, filter)
),

clusters as (
    select
        condition,
        filter,
        mean,
        count(*) as items,
        sum(weight) as weight,
        sum(weight * (difference - mean)) as residual,
        count(*) filter (where difference > 0) as items_higher,
        count(*) filter (where difference < 0) as items_lower
    from with_mean
    group by condition, filter, cluster, mean
)

select
    condition,
    filter,
    cast(sum(items) as bigint) as items,
    count(*) as clusters,
    mean as difference,
    sqrt(sum(residual ** 2) * count(*) / nullif(count(*) - 1, 0)) / sum(weight) as stderr,
    mean / nullif(stderr, 0) as z,
    cast(sum(items_higher) as bigint) as items_higher,
    cast(sum(items_lower) as bigint) as items_lower
from clusters
group by condition, filter, mean
order by condition, filter
