with evaluations as (
    select * from {{ ref('int_evaluations') }}
),

evaluators as (
    select distinct
        problem,
        condition,
        doc_id,
        evaluator,
        evaluator_unit_id,
        key_unit_id as unit_id
    from evaluations
)

select * from evaluators
