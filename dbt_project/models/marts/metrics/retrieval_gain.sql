with retrieval_excerpts as (
    select * from {{ ref('retrieval_excerpts') }}
),

retrieval_gain as (
    {{ variant_sums(variants(metric = 'retrieval_gain')) }}
)

select * from retrieval_gain
