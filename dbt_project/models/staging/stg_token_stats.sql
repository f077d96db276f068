with tokens as (
    select * from {{ source('extract', 'tokens') }}
)

select * from tokens
