with eval_units as (
    select * from {{ source('evals', 'eval_units') }}
)

select * from eval_units
