{{ config(materialized = 'table') }}

with units as (
    select * from {{ source('extract', 'units') }}
)

select * from units
