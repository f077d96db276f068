with tokens as (
    select * from {{ ref('fct_tokens') }}
),

context_pairs as (
    select
        problem,
        model_id,
        pair as condition,
        doc_id,
        position,
        context_tokens,
        short_context_tokens,
        token_id,
        char_start,
        char_end,
        cast(-nll as float) as logprob,
        cast(-short_nll as float) as short_logprob,
        entropy,
        short_entropy,
        rank,
        short_rank,
        short_nll - nll as gain
    from tokens
    where short_nll is not null
)

select * from context_pairs
