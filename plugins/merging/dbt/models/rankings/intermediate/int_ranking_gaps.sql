-- Where an entry has several columns in a group and no win rate in any, the first one says why.

with ranking_groups as (
    select * from {{ ref('int_ranking_groups') }}
    where draw = 0 and mean_win_rate is null
),

ranking_values as (
    select * from {{ ref('int_ranking_values') }}
),

columns_of_groups as (
    select
        problem,
        round,
        task_group,
        min(task) as task
    from ranking_values
    group by problem, round, task_group
),

items_of_tasks as (
    select distinct
        ranking_values.problem,
        ranking_values.round,
        ranking_values.task_group,
        ranking_values.task,
        ranking_values.item
    from ranking_values
    inner join columns_of_groups
        on ranking_values.problem = columns_of_groups.problem
        and ranking_values.round = columns_of_groups.round
        and ranking_values.task_group = columns_of_groups.task_group
        and ranking_values.task = columns_of_groups.task
),

-- a result without items counts as one item
answered as (
    select
        ranking_groups.problem,
        ranking_groups.round,
        ranking_groups.task_group,
        ranking_groups.entry,
        items_of_tasks.task,
        items_of_tasks.item,
        count(ranking_values.entry) as given_values,
        count(ranking_values.value) = count(*) as is_answered,
        coalesce(bool_and(isfinite(ranking_values.value)), true) as is_finite
    from ranking_groups
    inner join items_of_tasks
        on ranking_groups.problem = items_of_tasks.problem
        and ranking_groups.round = items_of_tasks.round
        and ranking_groups.task_group = items_of_tasks.task_group
    left join ranking_values
        on ranking_groups.problem = ranking_values.problem
        and ranking_groups.round = ranking_values.round
        and ranking_groups.entry = ranking_values.entry
        and items_of_tasks.task = ranking_values.task
        and items_of_tasks.item is not distinct from ranking_values.item
    group by
        ranking_groups.problem,
        ranking_groups.round,
        ranking_groups.task_group,
        ranking_groups.entry,
        items_of_tasks.task,
        items_of_tasks.item
),

counted as (
    select
        problem,
        round,
        task_group,
        entry,
        task,
        sum(given_values) as given_values,
        count(item) as items,
        count(*) filter (where not is_answered) as unanswered,
        min(item) filter (where not is_answered) as first_unanswered,
        bool_and(is_finite) as is_finite
    from answered
    group by problem, round, task_group, entry, task
),

entries as (
    select distinct
        problem,
        round,
        entry,
        regexp_replace(lower(entry), '[\s_.-]+', '', 'g') as spelling
    from ranking_values
),

-- `Bob` in one task and `bob` in another are two entries here, and mostly one that was mis-spelt
look_alikes as (
    select
        mine.problem,
        mine.round,
        mine.entry,
        string_agg(other.entry, ' or ' order by other.entry) as others
    from entries as mine
    inner join entries as other
        on mine.problem = other.problem
        and mine.round = other.round
        and mine.spelling = other.spelling
        and mine.entry != other.entry
    group by mine.problem, mine.round, mine.entry
),

gaps as (
    select
        counted.problem,
        counted.round,
        counted.task_group,
        counted.entry,
        case
            when counted.given_values = 0 and look_alikes.others is null then 'no result'
            when counted.given_values = 0
                then concat('no result; is it the same as ', look_alikes.others, '?')
            when counted.items > 0 and counted.unanswered > 0
                then concat(
                        counted.unanswered,
                        ' of ',
                        counted.items,
                        ' items of ',
                        counted.task,
                        ' without a value, the first is item ',
                        counted.first_unanswered
                    )
            when counted.unanswered > 0 then 'the value is empty'
            when not counted.is_finite then 'no finite value'
            else 'no other entry has a value to compare with'
        end as cause
    from counted
    left join look_alikes
        on counted.problem = look_alikes.problem
        and counted.round = look_alikes.round
        and counted.entry = look_alikes.entry
)

select * from gaps
