with ladder_powers as (
    select * from {{ ref('ladder_powers') }}
)

{{ variant_sums(variants(metric = 'ladder_power')) }}
