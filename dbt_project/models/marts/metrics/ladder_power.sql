with ladder_powers as (
    select * from {{ ref('ladder_powers') }}
),

ladder_power as (
    {{ variant_sums(variants(metric = 'ladder_power')) }}
)

select * from ladder_power
