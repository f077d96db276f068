with retrieval_excerpts as (
    select * from {{ ref('retrieval_excerpts') }}
),

retrieval_recall as (
    {{ variant_sums(variants(metric = 'retrieval_recall')) }}
)

select * from retrieval_recall
