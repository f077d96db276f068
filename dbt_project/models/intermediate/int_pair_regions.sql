with regions as (
    {{ regions_of(ref('int_pair_units')) }}
)

select * from regions
