with ladder_reaches as (
    select * from {{ ref('ladder_reaches') }}
),

ladder_reach as (
    {{ variant_sums(variants(metric = 'ladder_reach')) }}
)

select * from ladder_reach
