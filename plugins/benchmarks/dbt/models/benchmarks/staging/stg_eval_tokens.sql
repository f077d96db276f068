with eval_tokens as (
    select * from {{ source('evals', 'eval_tokens') }}
)

select * from eval_tokens
