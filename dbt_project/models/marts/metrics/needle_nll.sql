with needle_answers as (
    select * from {{ ref('needle_answers') }}
)

{{ variant_sums(variants(metric = 'needle_nll')) }}
