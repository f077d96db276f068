with token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

tokens as (
    select
        *,
        -logprob as nll
    from token_stats
)

select * from tokens
