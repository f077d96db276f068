with documents as (
    select * from {{ source('extract', 'documents') }}
)

select * from documents
