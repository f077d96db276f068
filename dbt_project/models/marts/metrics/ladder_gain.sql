with ladder_curves as (
    select * from {{ ref('ladder_curves') }}
)

{{ variant_sums(variants(metric = 'ladder_gain')) }}
