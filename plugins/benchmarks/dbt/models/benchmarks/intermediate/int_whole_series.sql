{{ config(materialized = 'view') }}

-- Of a problem with a target, the store has the scores that predict it, and null for later ones.
-- Statistics of its whole series take the table itself: `tokenmart e2lm score` and `report`.

with series as (
    select * from {{ ref('int_benchmark_series') }}
)

select * from series
where problem not in (select parts.problem from series as parts where parts.score is null)
