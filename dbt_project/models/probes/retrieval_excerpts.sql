with answers as (
    select * from {{ ref('retrieval_answers') }}
),

with_document as (
    select * exclude (kind) from answers
    where kind = 'retrieval_with_document'
),

without_document as (
    select * from answers
    where kind = 'retrieval_without_document'
),

retrieval_excerpts as (
    select
        with_document.*,
        without_document.nll as without_document_nll,
        without_document.nll - with_document.nll as gain,
        without_document.top_1 as without_document_top_1,
        without_document.right_prefix as without_document_right_prefix
    from with_document
    inner join without_document using (problem, model_id, probe, doc_id, segment)
)

select * from retrieval_excerpts
