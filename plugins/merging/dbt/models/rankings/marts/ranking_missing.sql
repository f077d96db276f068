-- An entry without a score has one of these causes in each of its missing groups; one with a score
-- is ranked without the column. Columns that nobody is compared in are listed for the entries that
-- have a row there.

with entry_columns as (
    select * from {{ ref('int_ranking_columns') }}
    where draw = 0
),

win_rates as (
    select * from {{ ref('int_ranking_win_rates') }}
    where draw = 0
),

round_entries as (
    select
        problem,
        round,
        entry,
        bool_or(is_outdated) as is_outdated
    from {{ ref('int_ranking_values') }}
    group by problem, round, entry
),

compared_columns as (
    select distinct
        problem,
        round,
        task_group,
        task,
        metric
    from win_rates
),

expected as (
    select
        problem,
        round,
        round_entries.entry,
        compared_columns.task_group,
        compared_columns.task,
        compared_columns.metric
    from round_entries
    inner join compared_columns using (problem, round)
    union by name
    select
        problem,
        round,
        entry,
        task_group,
        task,
        metric
    from entry_columns
)

select
    problem,
    round,
    entry,
    expected.task_group,
    task,
    metric,
    case
        when round_entries.is_outdated then 'outdated'
        when entry_columns.entry is null then 'no-result'
        when isfinite(entry_columns.score) then 'alone'
        when entry_columns.score is not null then 'not-finite'
        when entry_columns.items is null then 'empty'
        else 'items-missing'
    end as code,
    entry_columns.items - entry_columns.answered as items_missing
from expected
anti join win_rates using (problem, round, entry, task, metric)
left join entry_columns using (problem, round, entry, task, metric)
left join round_entries using (problem, round, entry)
