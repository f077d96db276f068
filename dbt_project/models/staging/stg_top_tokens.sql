with top_tokens as (
    select * from {{ source('extract', 'top_tokens') }}
)

select * from top_tokens
