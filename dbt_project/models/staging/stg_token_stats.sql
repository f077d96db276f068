with tokens as (
    select * from {{ source('extract', 'tokens') }}
),

renamed as (
    select
        problem,
        model_id,
        condition,
        doc_id,
        segment,
        position,
        context_tokens,
        token_id,
        char_start,
        char_end,
        logprob,
        entropy,
        rank,
        top_logprob
    from tokens
)

select * from renamed
