with units as (
    select * from {{ ref('stg_units') }}
)

select * from units
