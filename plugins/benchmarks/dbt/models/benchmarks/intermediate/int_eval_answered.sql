{{ config(materialized = 'view') }}

-- An answer belongs to its request if its unit was read when the task's requests were these.

with items as (
    select * from {{ source('evals', 'eval_items') }}
),

answers as (
    select * from {{ source('evals', 'eval_answers') }}
),

units as (
    select * from {{ source('evals', 'eval_units') }}
),

answered as (
    select
        items.*,
        answers.model_id,
        answers.filter,
        answers.answer,
        answers.loglikelihood,
        answers.is_greedy,
        answers.backend
    from items
    inner join answers using (problem, condition, doc_id, segment)
    left join units using (problem, model_id, condition, doc_id, fingerprint)
    -- what was made elsewhere has no unit, and the requests' own hash
    where coalesce(units.document_sha256, answers.fingerprint) = items.unit_sha256
)

select * from answered
