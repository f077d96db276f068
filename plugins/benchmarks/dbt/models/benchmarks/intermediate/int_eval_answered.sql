{{ config(materialized = 'view') }}

-- An answer belongs to its request if its unit was read when the task's requests were these.

with items as (
    select * from {{ ref('stg_eval_items') }}
),

answers as (
    select * from {{ ref('stg_eval_answers') }}
),

units as (
    select * from {{ ref('stg_eval_units') }}
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
    inner join answers
        on items.problem = answers.problem
        and items.condition = answers.condition
        and items.doc_id = answers.doc_id
        and items.segment = answers.segment
    left join units
        on answers.problem = units.problem
        and answers.model_id = units.model_id
        and answers.condition = units.condition
        and answers.doc_id = units.doc_id
        and answers.fingerprint = units.fingerprint
    -- what was made elsewhere has no unit, and the requests' own hash
    where coalesce(units.document_sha256, answers.fingerprint) = items.unit_sha256
)

select * from answered
