with resolved_entropies as (
    select * from {{ ref('resolved_entropies') }}
),

entropy_resolved as (
    {{ variant_sums(variants(metric = 'entropy_resolved'), suffix = 'pair') }}
)

select * from entropy_resolved
