with evaluations as (
    select * from {{ ref('int_evaluations') }}
),

evaluators as (
    select distinct
        problem,
        probe,
        doc_id,
        evaluator,
        evaluator_unit_id,
        hash(evaluator_unit_id, evaluator) as unit_id
    from evaluations
)

select * from evaluators
