with tokens as (
    select * from {{ ref('fct_tokens') }}
),

-- The default thresholds of LongPPL: a gain above 2 nats, and a log-probability above -2.
key_tokens as (
    select * from tokens
    where gain > 2
        and nll < 2
)

select * from key_tokens
