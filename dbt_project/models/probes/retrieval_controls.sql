with answers as (
    select * from {{ ref('retrieval_answers') }}
),

excerpts as (
    select * from {{ ref('retrieval_excerpts') }}
),

-- Replacements of the document: another document, its words shuffled, or its end alone.
controls as (
    select * from answers
    where kind not in ('retrieval_with_document', 'retrieval_without_document')
),

retrieval_controls as (
    select
        controls.problem,
        controls.model_id,
        controls.probe,
        controls.doc_id,
        controls.document_tokens,
        controls.segment,
        replace(controls.kind, 'retrieval_', '') as control,
        controls.tokens,
        controls.nll,
        excerpts.nll as with_document_nll,
        excerpts.without_document_nll,
        controls.top_1,
        excerpts.top_1 as with_document_top_1,
        excerpts.without_document_top_1
    from controls
    inner join excerpts using (problem, model_id, probe, doc_id, segment)
)

select * from retrieval_controls
