with needle_answers as (
    select * from {{ ref('needle_answers') }}
),

needle_recall as (
    {{ variant_sums(variants(metric = 'needle_recall')) }}
)

select * from needle_recall
