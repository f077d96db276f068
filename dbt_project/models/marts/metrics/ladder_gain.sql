with ladder_curves as (
    select * from {{ ref('ladder_curves') }}
),

ladder_gain as (
    {{ variant_sums(variants(metric = 'ladder_gain')) }}
)

select * from ladder_gain
