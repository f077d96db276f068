with units as (
    select * from {{ ref('int_units') }}
),

tokenisations as (
    select * from units
    where unit_id = tokenised_unit_id
)

select * from tokenisations
