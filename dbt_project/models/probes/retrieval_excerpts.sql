with answers as (
    select * from {{ ref('retrieval_answers') }}
),

with_document as (
    select * exclude (kind) from answers
    where kind = 'retrieval_with_document'
),

retrieval_excerpts as (
    select
        with_document.*,
        without_document.nll as without_document_nll,
        without_document.nll - with_document.nll as gain,
        without_document.top_1 as without_document_top_1,
        without_document.right_prefix as without_document_right_prefix
    from with_document
    inner join answers as without_document using (problem, model_id, probe, doc_id, segment)
    where without_document.kind = 'retrieval_without_document'
)

select * from retrieval_excerpts
