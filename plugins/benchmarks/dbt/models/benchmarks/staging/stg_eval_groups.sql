with eval_groups as (
    select * from {{ source('evals', 'eval_groups') }}
)

select * from eval_groups
