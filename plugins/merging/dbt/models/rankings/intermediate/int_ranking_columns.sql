-- An entry that has not answered every item of a column has no value there: its mean would be that
-- of other items.

with ranking_values as (
    select * from {{ ref('int_ranking_values') }}
    where given = 'score'
),

draws as (
    select * from {{ ref('int_ranking_draws') }}
    where resampled = 'items'
),

without_items as (
    select
        problem,
        0 as draw,
        round,
        task_group,
        task,
        metric,
        direction,
        entry,
        value as score,
        cast(null as bigint) as items,
        cast(null as bigint) as answered
    from ranking_values
    where item is null
),

column_sizes as (
    select
        problem,
        round,
        task,
        metric,
        count(distinct item) as items
    from ranking_values
    where item is not null
    group by problem, round, task, metric
),

whole as (
    select
        ranking_values.problem,
        ranking_values.round,
        ranking_values.task_group,
        ranking_values.task,
        ranking_values.metric,
        any_value(ranking_values.direction) as direction,
        ranking_values.entry,
        any_value(column_sizes.items) as items,
        count(ranking_values.value) as answered
    from ranking_values
    inner join column_sizes
        on ranking_values.problem = column_sizes.problem
        and ranking_values.round = column_sizes.round
        and ranking_values.task = column_sizes.task
        and ranking_values.metric = column_sizes.metric
    group by
        ranking_values.problem,
        ranking_values.round,
        ranking_values.task_group,
        ranking_values.task,
        ranking_values.metric,
        ranking_values.entry
),

cluster_sums as (
    select
        problem,
        round,
        task,
        metric,
        entry,
        cluster,
        sum(value * weight) as total,
        sum(weight) as weight
    from ranking_values
    where item is not null
    group by problem, round, task, metric, entry, cluster
),

drawn as (
    select
        cluster_sums.problem,
        draws.draw,
        cluster_sums.round,
        cluster_sums.task,
        cluster_sums.metric,
        cluster_sums.entry,
        sum(cluster_sums.total * draws.times) / sum(cluster_sums.weight * draws.times) as score
    from cluster_sums
    inner join draws
        on cluster_sums.problem = draws.problem
        and cluster_sums.round = draws.round
        and cluster_sums.task = draws.stratum
        and cluster_sums.cluster = draws.thing
    group by
        cluster_sums.problem,
        draws.draw,
        cluster_sums.round,
        cluster_sums.task,
        cluster_sums.metric,
        cluster_sums.entry
),

with_items as (
    select
        drawn.problem,
        drawn.draw,
        drawn.round,
        whole.task_group,
        drawn.task,
        drawn.metric,
        whole.direction,
        drawn.entry,
        -- what is left beyond are the last bits of sums, which must not break ties
        if(whole.answered = whole.items, round(drawn.score, 12), null) as score,
        whole.items,
        whole.answered
    from drawn
    inner join whole
        on drawn.problem = whole.problem
        and drawn.round = whole.round
        and drawn.task = whole.task
        and drawn.metric = whole.metric
        and drawn.entry = whole.entry
)

select * from without_items
union all by name
select * from with_items
