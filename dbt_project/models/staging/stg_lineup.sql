with lineup as (
    select * from {{ source('extract', 'lineup') }}
)

select * from lineup
