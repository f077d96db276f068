with documents as (
    select * from {{ ref('stg_documents') }}
)

select * from documents
