with units as (
    select * from {{ ref('stg_units') }}
),

document_lengths as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens
    from units
    where status = 'done'
)

select * from document_lengths
