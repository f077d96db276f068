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

means as (
    select
        condition,
        filter,
        count(*) as items,
        sum(weight) as weights,
        sum(weight * difference) / sum(weight) as difference,
        count(*) filter (where difference > 0) as items_higher,
        count(*) filter (where difference < 0) as items_lower
    from pairs
    group by condition, filter
),

residuals as (
    select
        pairs.condition,
        pairs.filter,
        sum(pairs.weight * (pairs.difference - means.difference)) as residual
    from pairs
    inner join means on pairs.condition = means.condition and pairs.filter = means.filter
    group by pairs.condition, pairs.filter, pairs.cluster
),

spreads as (
    select
        condition,
        filter,
        count(*) as clusters,
        sqrt(sum(residual ** 2) * count(*) / nullif(count(*) - 1, 0)) as spread
    from residuals
    group by condition, filter
)

select
    means.condition,
    means.filter,
    means.items,
    spreads.clusters,
    means.difference,
    spreads.spread / means.weights as stderr,
    means.difference / nullif(spreads.spread / means.weights, 0) as z,
    means.items_higher,
    means.items_lower
from means
inner join spreads on means.condition = spreads.condition and means.filter = spreads.filter
order by means.condition, means.filter
