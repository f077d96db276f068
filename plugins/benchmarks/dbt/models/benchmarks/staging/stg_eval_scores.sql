with eval_scores as (
    select * from {{ source('evals', 'eval_scores') }}
)

select * from eval_scores
