with choice_divergences as (
    select * from {{ ref('choice_divergences') }}
)

{{ variant_sums(variants(metric = 'choice_divergence'), suffix = 'pair') }}
