with ladder_reaches as (
    select * from {{ ref('ladder_reaches') }}
)

{{ variant_sums(variants(metric = 'ladder_reach')) }}
