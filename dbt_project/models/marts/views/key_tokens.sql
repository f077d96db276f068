with context_pairs as (
    select * from {{ ref('context_pairs') }}
),

key_tokens as (
    select * from context_pairs
    where gain > 2
        and logprob > -2
)

select * from key_tokens
