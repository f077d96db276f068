with documents as (
    select * from {{ source('extract', 'documents') }}
),

renamed as (
    select
        problem,
        doc_id,
        name,
        sha256,
        characters,
        bytes,
        text
    from documents
)

select * from renamed
