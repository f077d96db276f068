with downstream as (
    select * from {{ source('extract', 'downstream') }}
),

renamed as (
    select
        problem,
        model_id,
        task,
        item,
        cluster,
        context_tokens,
        score,
        exact_match,
        token_accuracy,
        answer_nll
    from downstream
)

select * from renamed
