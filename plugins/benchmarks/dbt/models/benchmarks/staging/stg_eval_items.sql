with eval_items as (
    select * from {{ source('evals', 'eval_items') }}
)

select * from eval_items
