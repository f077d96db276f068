-- An entry is ranked by the columns in which it has a value. A column that others have a value in
-- and it has not changes neither its number of groups nor its reason: it is listed here.

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

missing as (
    select expected.*
    from expected
    anti join win_rates
        on expected.problem = win_rates.problem
        and expected.round = win_rates.round
        and expected.entry = win_rates.entry
        and expected.task = win_rates.task
        and expected.metric = win_rates.metric
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
