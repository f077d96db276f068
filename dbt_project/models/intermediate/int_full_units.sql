with units as (
    select * from {{ ref('int_units') }}
),

full_units as (
    select * from units
    where kind = 'full'
)

select * from full_units
