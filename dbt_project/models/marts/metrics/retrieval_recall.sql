with retrieval_excerpts as (
    select * from {{ ref('retrieval_excerpts') }}
)

{{ variant_sums(variants(metric = 'retrieval_recall')) }}
