with resolved_entropies as (
    select * from {{ ref('resolved_entropies') }}
)

{{ variant_sums(variants(metric = 'entropy_resolved'), suffix = 'pair') }}
