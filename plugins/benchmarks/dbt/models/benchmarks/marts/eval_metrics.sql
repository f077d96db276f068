with item_metrics as (
    select * from {{ ref('eval_item_metrics') }}
),

wholes as (
    select
        *,
        'all' as part
    from {{ ref('int_eval_scores') }}
    where item is null
),

groups as (
    select * from {{ source('evals', 'eval_groups') }}
),

cuts as (
    select
        problem,
        model_id,
        condition,
        count(distinct item) filter (where tokens_cut > 0) as items_cut
    from {{ ref('int_eval_requests') }}
    where tokens_cut is not null
    group by problem, model_id, condition
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
        any_value(aggregate) as aggregate,
        any_value(backend) as backend,
        count(*) as items,
        count(*) filter (where tokens_cut > 0) as items_cut,
        sum(weight) as weights,
        sum(weight * value) / nullif(sum(weight), 0) as mean
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
    inner join means using (problem, model_id, condition, filter, metric, part, part_value)
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

from_items as (
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
        if(means.aggregate = 'exp', exp(means.mean), means.mean) as value,  -- noqa: RF04
        sqrt(spreads.squares * spreads.clusters / nullif(spreads.clusters - 1, 0))
        / means.weights * if(means.aggregate = 'exp', exp(means.mean), 1) as stderr,
        means.items,
        means.items_cut,
        spreads.clusters,
        means.backend
    from means
    inner join spreads using (problem, model_id, condition, filter, metric, part, part_value)
),

-- the task's own aggregation, where it is known, is the value of all items
of_tasks as (
    select
        problem,
        model_id,
        condition,
        coalesce(from_items.task, wholes.task) as task,
        coalesce(from_items.shots, wholes.shots) as shots,
        filter,
        metric,
        part,
        coalesce(from_items.part_value, '') as part_value,
        coalesce(wholes.value, from_items.value) as value,  -- noqa: RF04
        from_items.stderr,
        coalesce(wholes.items, from_items.items, 0) as items,
        -- of a metric that items have no values of, what was cut of the task
        coalesce(from_items.items_cut, cuts.items_cut) as items_cut,
        from_items.clusters,
        coalesce(from_items.backend, wholes.backend) as backend,
        wholes.reason
    from from_items
    full outer join wholes using (problem, model_id, condition, filter, metric, part)
    left join cuts using (problem, model_id, condition)
),

members as (
    select
        groups.problem,
        groups.condition,
        groups.group_name,
        groups.weight_by_size,
        of_tasks.model_id,
        of_tasks.metric,
        of_tasks.filter,
        of_tasks.shots,
        of_tasks.value,
        of_tasks.stderr,
        of_tasks.items,
        of_tasks.items_cut,
        of_tasks.clusters,
        of_tasks.backend
    from groups
    inner join of_tasks
        on groups.problem = of_tasks.problem
        and groups.member = of_tasks.condition
        and groups.metric = of_tasks.metric
        and coalesce(groups.filter, of_tasks.filter) = of_tasks.filter
    where of_tasks.part = 'all'
),

sizes as (
    select
        problem,
        condition,
        count(distinct member) as tasks
    from groups
    group by problem, condition
),

-- standard errors of groups: pooled where items count alike, else of a mean of tasks
of_groups as (
    select
        members.problem,
        members.model_id,
        members.condition,
        any_value(members.group_name) as task,
        if(count(distinct members.shots) = 1, any_value(members.shots), null) as shots,
        members.filter,
        members.metric,
        'all' as part,
        '' as part_value,
        case
            when count(members.value) < any_value(sizes.tasks) then null
            when any_value(members.weight_by_size)
                then sum(members.value * members.items) / sum(members.items)
            else avg(members.value)
        end as value,  -- noqa: RF04
        case
            when count(members.value) < any_value(sizes.tasks)
                or count(members.stderr) < any_value(sizes.tasks)
                then null
            when any_value(members.weight_by_size)
                then sqrt(
                        sum((members.items - 1) * pow(members.stderr, 2) * members.items)
                        / (sum(members.items) - count(*)) / sum(members.items)
                    )
            else sqrt(sum(pow(members.stderr, 2))) / count(*)
        end as stderr,
        sum(members.items) as items,
        sum(members.items_cut) as items_cut,
        sum(members.clusters) as clusters,
        any_value(members.backend) as backend,
        case
            when count(members.value) < any_value(sizes.tasks) then 'incomplete_group'
        end as reason
    from members
    inner join sizes using (problem, condition)
    group by
        members.problem, members.model_id, members.condition, members.filter, members.metric
),

metrics as (
    select * from of_tasks
    union all by name
    select * from of_groups
)

select
    problem,
    model_id,
    condition,
    task,
    cast(shots as integer) as shots,
    filter,
    metric,
    part,
    part_value,
    cast(value as double) as value,  -- noqa: RF04
    cast(stderr as double) as stderr,
    cast(items as bigint) as items,
    cast(items_cut as bigint) as items_cut,
    cast(clusters as bigint) as clusters,
    backend,
    reason
from metrics
