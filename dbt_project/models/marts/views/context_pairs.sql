with context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

with_gain as (
    select
        * exclude (version),
        cast(logprob as double) - cast(short_logprob as double) as gain
    from context_pairs
)

select * from with_gain
