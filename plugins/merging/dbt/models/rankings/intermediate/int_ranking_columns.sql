-- An entry that has not answered every item of a column has no value there: its mean would be that
-- of other items. Beyond 12 digits are the last bits of sums, which must not break ties.

with scores as (
    select * from {{ ref('int_ranking_values') }}
    where given = 'score'
),

draws as (
    select * from {{ ref('int_ranking_draws') }}
    where resampled = 'items'
),

column_items as (
    select
        problem,
        round,
        task,
        metric,
        nullif(count(distinct item), 0) as items
    from scores
    group by problem, round, task, metric
),

sums as (
    select
        problem,
        round,
        task_group,
        task,
        metric,
        any_value(direction) as direction,
        entry,
        any_value(value) as any_of_values,
        count(value) as answered,
        sum(value * weight) / sum(weight) as mean_value
    from scores
    group by problem, round, task_group, task, metric, entry
),

measured as (
    select
        sums.problem,
        sums.round,
        sums.task_group,
        sums.task,
        sums.metric,
        sums.direction,
        sums.entry,
        0 as draw,
        column_items.items,
        if(column_items.items is null, null, sums.answered) as answered,
        case
            when column_items.items is null then sums.any_of_values
            when sums.answered = column_items.items then round(sums.mean_value, 12)
        end as score
    from sums
    inner join column_items using (problem, round, task, metric)
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
    from scores
    where item is not null
    group by problem, round, task, metric, entry, cluster
),

drawn as (
    select
        sums.problem,
        draws.draw,
        sums.round,
        sums.task,
        sums.metric,
        sums.entry,
        round(sum(sums.total * draws.times) / sum(sums.weight * draws.times), 12) as score
    from cluster_sums as sums
    inner join draws
        on sums.problem = draws.problem
        and sums.round = draws.round
        and sums.task = draws.stratum
        and sums.cluster = draws.thing
    group by sums.problem, draws.draw, sums.round, sums.task, sums.metric, sums.entry
)

select * from measured
union all by name
select measured.* replace (drawn.draw as draw, drawn.score as score)
from measured
inner join drawn using (problem, round, task, metric, entry)
where measured.score is not null
