with needle_answers as (
    select * from {{ ref('needle_answers') }}
),

needle_nll as (
    {{ variant_sums(variants(metric = 'needle_nll')) }}
)

select * from needle_nll
