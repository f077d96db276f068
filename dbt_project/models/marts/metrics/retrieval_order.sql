with retrieval_controls as (
    select * from {{ ref('retrieval_controls') }}
),

retrieval_order as (
    {{ variant_sums(variants(metric = 'retrieval_order')) }}
)

select * from retrieval_order
