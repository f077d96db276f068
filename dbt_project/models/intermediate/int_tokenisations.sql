with units as (
    select * from {{ ref('int_units') }}
),

tokenisations as (
    select * from units
    where represents_tokenisation
)

select * from tokenisations
