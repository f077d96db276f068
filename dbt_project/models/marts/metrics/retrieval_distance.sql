with retrieval_controls as (
    select * from {{ ref('retrieval_controls') }}
)

{{ variant_sums(variants(metric = 'retrieval_distance')) }}
