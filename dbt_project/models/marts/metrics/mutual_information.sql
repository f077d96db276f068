with half_information as (
    select * from {{ ref('half_information') }}
)

{{ variant_sums(variants(metric = 'mutual_information')) }}
