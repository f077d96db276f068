with condition_pairs as (
    select * from {{ source('extract', 'condition_pairs') }}
)

select * from condition_pairs
