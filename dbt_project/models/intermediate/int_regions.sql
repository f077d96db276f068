with regions as (
    {{ regions_of(ref('int_full_units')) }}
)

select * from regions
