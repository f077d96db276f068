{{ config(materialized = 'view') }}

-- Of a problem with a target, the store has the scores that predict it, and null for later ones.
-- Statistics of its whole series take the table itself: `tokenmart e2lm score` and `report`.

with series as (
    select * from {{ ref('int_benchmark_series') }}
),

cut_problems as (
    select problem from series
    where score is null
)

select * from series
where problem not in (select cut_problems.problem from cut_problems)
