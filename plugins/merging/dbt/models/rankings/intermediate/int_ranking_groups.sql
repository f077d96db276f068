{{ config(materialized = 'view') }}

with scores as (
    select * from {{ ref('int_ranking_values') }}
),

draws as (
    select * from {{ ref('int_ranking_draws') }}
),

round_entries as (
    select distinct
        problem,
        round,
        entry
    from scores
),

round_groups as (
    select distinct
        problem,
        round,
        task_group
    from scores
),

round_draws as (
    select distinct
        problem,
        round,
        draw
    from draws
    where resampled = 'items'
    union all
    select distinct
        problem,
        round,
        0 as draw
    from scores
),

rates as (
    select
        problem,
        draw,
        round,
        task_group,
        entry,
        avg(win_rate) as mean_win_rate
    from {{ ref('int_ranking_win_rates') }}
    group by problem, draw, round, task_group, entry
    union all by name
    select
        problem,
        0 as draw,
        round,
        task_group,
        entry,
        value as mean_win_rate
    from scores
    where given = 'mean_win_rate'
),

by_items as (
    select
        problem,
        round,
        task_group,
        entry,
        draw,
        1 as times,
        rates.mean_win_rate
    from round_entries
    inner join round_groups using (problem, round)
    inner join round_draws using (problem, round)
    left join rates using (problem, round, task_group, entry, draw)
)

select * from by_items
union all by name
select by_items.* replace (draws.draw as draw, draws.times as times)
from by_items
inner join draws
    on by_items.problem = draws.problem
    and by_items.round = draws.round
    and by_items.task_group = draws.thing
where by_items.draw = 0 and draws.resampled = 'tasks'
