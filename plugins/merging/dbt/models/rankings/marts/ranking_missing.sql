-- An entry is ranked by the columns in which it has a value. A column that others have a value in
-- and it has not changes neither its number of groups nor its reason: it is listed here.

with win_rates as (
    select * from {{ ref('int_ranking_win_rates') }}
    where draw = 0
),

scores as (
    select * from {{ ref('int_ranking_scores') }}
    where draw = 0 and score is not null
),

ranking_values as (
    select * from {{ ref('int_ranking_values') }}
    where given = 'score'
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

column_items as (
    select
        problem,
        round,
        task,
        metric,
        count(distinct item) as items
    from ranking_values
    group by problem, round, task, metric
),

given_values as (
    select
        problem,
        round,
        task,
        metric,
        entry,
        count(*) as rows_given,
        count(value) as values_given
    from ranking_values
    group by problem, round, task, metric, entry
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
            when given_values.rows_given is null then 'no result'
            when column_items.items = 0 and given_values.values_given = 0 then 'an empty value'
            when column_items.items > given_values.values_given
                then concat(
                        column_items.items - given_values.values_given,
                        ' of ',
                        column_items.items,
                        ' items without a value'
                    )
            else 'no finite value'
        end as cause
    from missing
    inner join column_items
        on missing.problem = column_items.problem
        and missing.round = column_items.round
        and missing.task = column_items.task
        and missing.metric = column_items.metric
    left join given_values
        on missing.problem = given_values.problem
        and missing.round = given_values.round
        and missing.task = given_values.task
        and missing.metric = given_values.metric
        and missing.entry = given_values.entry
)

select * from ranking_missing
