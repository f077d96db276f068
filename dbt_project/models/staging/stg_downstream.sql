with downstream as (
    select * from {{ source('extract', 'downstream') }}
)

select * from downstream
