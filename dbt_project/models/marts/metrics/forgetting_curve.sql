with copy_lengths as (
    select * from {{ ref('copy_lengths') }}
)

{{ variant_sums(variants(metric = 'forgetting_curve')) }}
