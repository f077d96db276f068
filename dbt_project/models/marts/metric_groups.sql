with documents as (
    select
        metric_documents.*,
        texts.document_group
    from {{ ref('metric_documents') }} as metric_documents
    inner join {{ source('extract', 'documents') }} as texts using (problem, doc_id)
    where texts.document_group is not null
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
),

metric_groups as (
    {{ combined_documents(by = 'document_group') }}
)

select * from metric_groups
