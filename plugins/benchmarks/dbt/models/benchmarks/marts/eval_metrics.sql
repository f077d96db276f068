with item_metrics as (
    select * from {{ ref('eval_item_metrics') }}
),

catalog as (
    select * from {{ ref('eval_metric_catalog') }}
),

parts as (
    select
        *,
        unnest(['all', 'subject', 'length']) as part,
        unnest(['', subject, length_band]) as part_value
    from item_metrics
),

means as (
    select
        problem,
        model_id,
        condition,
        filter,
        metric,
        part,
        part_value,
        any_value(task) as task,
        any_value(shots) as shots,
        any_value(request_type) as request_type,
        any_value(backend) as backend,
        count(*) as items,
        sum(weight) as weights,
        sum(weight * value) / sum(weight) as mean
    from parts
    where part_value is not null
    group by problem, model_id, condition, filter, metric, part, part_value
),

residuals as (
    select
        parts.problem,
        parts.model_id,
        parts.condition,
        parts.filter,
        parts.metric,
        parts.part,
        parts.part_value,
        sum(parts.weight * (parts.value - means.mean)) as residual
    from parts
    inner join means
        on parts.problem = means.problem
        and parts.model_id = means.model_id
        and parts.condition = means.condition
        and parts.filter = means.filter
        and parts.metric = means.metric
        and parts.part = means.part
        and parts.part_value = means.part_value
    group by
        parts.problem, parts.model_id, parts.condition, parts.filter, parts.metric, parts.part,
        parts.part_value, parts.cluster
),

spreads as (
    select
        problem,
        model_id,
        condition,
        filter,
        metric,
        part,
        part_value,
        count(*) as clusters,
        sum(pow(residual, 2)) as squares
    from residuals
    group by problem, model_id, condition, filter, metric, part, part_value
),

metrics as (
    select
        means.problem,
        means.model_id,
        means.condition,
        means.task,
        means.shots,
        means.filter,
        means.metric,
        means.part,
        means.part_value,
        if(catalog.aggregate = 'exp', exp(means.mean), means.mean) as value,  -- noqa: RF04
        sqrt(spreads.squares * spreads.clusters / nullif(spreads.clusters - 1, 0))
        / means.weights * if(catalog.aggregate = 'exp', exp(means.mean), 1) as stderr,
        means.items,
        spreads.clusters,
        means.backend
    from means
    inner join spreads
        on means.problem = spreads.problem
        and means.model_id = spreads.model_id
        and means.condition = spreads.condition
        and means.filter = spreads.filter
        and means.metric = spreads.metric
        and means.part = spreads.part
        and means.part_value = spreads.part_value
    inner join catalog
        on means.request_type = catalog.request_type
        and means.metric = catalog.metric
)

select * from metrics
