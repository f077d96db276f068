{{ config(materialized = 'view') }}

-- A task's own metrics belong to its requests if they were counted when the requests were these.

with scores as (
    select * from {{ source('evals', 'eval_scores') }}
),

units as (
    select distinct
        problem,
        condition,
        doc_id,
        task,
        shots,
        unit_sha256
    from {{ source('evals', 'eval_items') }}
),

requests as (
    select
        problem,
        condition,
        any_value(task) as task,
        any_value(shots) as shots,
        sha256(string_agg(unit_sha256, ',' order by doc_id)) as requests_sha256
    from units
    group by problem, condition
),

current_scores as (
    select
        scores.*,
        requests.task,
        requests.shots
    from scores
    inner join requests using (problem, condition, requests_sha256)
)

select * from current_scores
