with choice_divergences as (
    select * from {{ ref('choice_divergences') }}
),

choice_divergence as (
    {{ variant_sums(variants(metric = 'choice_divergence'), suffix = 'pair') }}
)

select * from choice_divergence
