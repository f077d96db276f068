with ranking_values as (
    select * from {{ ref('int_ranking_values') }}
),

win_rates as (
    select * from {{ ref('int_ranking_win_rates') }}
),

all_draws as (
    select * from {{ ref('int_ranking_draws') }}
),

round_entries as (
    select distinct
        problem,
        round,
        entry
    from ranking_values
),

round_groups as (
    select distinct
        problem,
        round,
        task_group
    from ranking_values
),

round_draws as (
    select distinct
        problem,
        round,
        draw
    from all_draws
    where draw = 0 or resampled = 'items'
),

entry_groups as (
    select
        round_entries.problem,
        round_entries.round,
        round_entries.entry,
        round_groups.task_group
    from round_entries
    inner join round_groups
        on round_entries.problem = round_groups.problem
        and round_entries.round = round_groups.round
),

found as (
    select
        problem,
        draw,
        round,
        task_group,
        entry,
        avg(win_rate) as mean_win_rate
    from win_rates
    group by problem, draw, round, task_group, entry
    union all by name
    select
        problem,
        0 as draw,
        round,
        task_group,
        entry,
        value as mean_win_rate
    from ranking_values
    where given = 'mean_win_rate'
),

by_items as (
    select
        entry_groups.problem,
        round_draws.draw,
        entry_groups.round,
        entry_groups.task_group,
        entry_groups.entry,
        1 as times,
        found.mean_win_rate
    from entry_groups
    inner join round_draws
        on entry_groups.problem = round_draws.problem
        and entry_groups.round = round_draws.round
    left join found
        on entry_groups.problem = found.problem
        and round_draws.draw = found.draw
        and entry_groups.round = found.round
        and entry_groups.task_group = found.task_group
        and entry_groups.entry = found.entry
),

by_tasks as (
    select
        by_items.problem,
        all_draws.draw,
        by_items.round,
        by_items.task_group,
        by_items.entry,
        all_draws.times,
        by_items.mean_win_rate
    from by_items
    inner join all_draws
        on by_items.problem = all_draws.problem
        and by_items.round = all_draws.round
        and by_items.task_group = all_draws.thing
    where by_items.draw = 0 and all_draws.draw > 0 and all_draws.resampled = 'tasks'
)

select * from by_items
union all by name
select * from by_tasks
