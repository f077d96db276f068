with needle_answers as (
    select * from {{ ref('needle_answers') }}
),

needle_slope as (
    {{ variant_sums(variants(metric = 'needle_slope')) }}
)

select * from needle_slope
