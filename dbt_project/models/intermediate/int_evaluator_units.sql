with evaluated_units as (
    select * from {{ ref('int_evaluated_units') }}
),

evaluator_units as (
    select distinct
        problem,
        condition,
        doc_id,
        evaluator,
        evaluator_unit_id,
        key_characters_id
    from evaluated_units
)

select * from evaluator_units
