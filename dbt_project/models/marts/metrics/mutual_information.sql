with half_information as (
    select * from {{ ref('half_information') }}
),

mutual_information as (
    {{ variant_sums(variants(metric = 'mutual_information')) }}
)

select * from mutual_information
