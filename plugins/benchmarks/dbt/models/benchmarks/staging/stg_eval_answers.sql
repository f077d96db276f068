with eval_answers as (
    select * from {{ source('evals', 'eval_answers') }}
)

select * from eval_answers
