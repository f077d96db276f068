with retrieval_controls as (
    select * from {{ ref('retrieval_controls') }}
),

retrieval_distance as (
    {{ variant_sums(variants(metric = 'retrieval_distance')) }}
)

select * from retrieval_distance
