with retrieval_controls as (
    select * from {{ ref('retrieval_controls') }}
),

retrieval_lookup as (
    {{ variant_sums(variants(metric = 'retrieval_lookup')) }}
)

select * from retrieval_lookup
