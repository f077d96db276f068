-- An entry is ranked by the columns in which it has a value to compare. One without changes neither
-- its number of groups nor its reason: it is listed here. Columns that nobody is compared in are
-- listed for the entries that have a row there.

with entry_columns as (
    select * from {{ ref('int_ranking_columns') }}
    where draw = 0
),

win_rates as (
    select * from {{ ref('int_ranking_win_rates') }}
    where draw = 0
),

scores as (
    select * from {{ ref('int_ranking_scores') }}
    where draw = 0 and score is not null
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
        scores.problem,
        scores.round,
        scores.entry,
        compared_columns.task_group,
        compared_columns.task,
        compared_columns.metric
    from scores
    inner join compared_columns
        on scores.problem = compared_columns.problem
        and scores.round = compared_columns.round
),

with_rows as (
    select
        entry_columns.problem,
        entry_columns.round,
        entry_columns.entry,
        entry_columns.task_group,
        entry_columns.task,
        entry_columns.metric
    from entry_columns
    inner join scores
        on entry_columns.problem = scores.problem
        and entry_columns.round = scores.round
        and entry_columns.entry = scores.entry
),

together as (
    select * from expected
    union by name
    select * from with_rows
),

missing as (
    select together.*
    from together
    anti join win_rates
        on together.problem = win_rates.problem
        and together.round = win_rates.round
        and together.entry = win_rates.entry
        and together.task = win_rates.task
        and together.metric = win_rates.metric
),

ranking_missing as (
    select
        missing.problem,
        missing.round,
        missing.entry,
        missing.task_group,
        missing.task,
        missing.metric,
        case
            when entry_columns.entry is null then 'no result'
            when isfinite(entry_columns.score) then 'no other entry has a value to compare with'
            when entry_columns.score is not null then 'no finite value'
            when entry_columns.items is null then 'an empty value'
            else concat(
                    entry_columns.items - entry_columns.answered,
                    ' of ',
                    entry_columns.items,
                    ' items without a value'
                )
        end as cause
    from missing
    left join entry_columns
        on missing.problem = entry_columns.problem
        and missing.round = entry_columns.round
        and missing.task = entry_columns.task
        and missing.metric = entry_columns.metric
        and missing.entry = entry_columns.entry
)

select * from ranking_missing
