with units as (
    select * from {{ ref('int_units') }}
    where starts_with(kind, 'retrieval_')
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

answers as (
    select
        units.problem,
        units.model_id,
        units.probe,
        units.doc_id,
        units.document_tokens,
        units.kind,
        token_stats.segment,
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum,
        count(*) filter (where token_stats.rank = 1) as top_1
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    group by all
),

-- What stands before the excerpt: the document, nothing, or a control in the document's place.
controls as (
    select * from answers
    where kind not in ('retrieval_with_document', 'retrieval_without_document')
),

with_document as (
    select * from answers
    where kind = 'retrieval_with_document'
),

without_document as (
    select * from answers
    where kind = 'retrieval_without_document'
),

compared as (
    select
        controls.problem,
        controls.model_id,
        controls.probe,
        controls.kind as control,
        controls.doc_id,
        controls.document_tokens,
        controls.segment,
        controls.tokens,
        controls.nll_sum,
        with_document.nll_sum as with_document_nll_sum,
        without_document.nll_sum as without_document_nll_sum,
        controls.top_1,
        with_document.top_1 as with_document_top_1,
        without_document.top_1 as without_document_top_1
    from controls
    inner join with_document
        on controls.problem = with_document.problem
        and controls.model_id = with_document.model_id
        and controls.probe = with_document.probe
        and controls.doc_id = with_document.doc_id
        and controls.segment = with_document.segment
    inner join without_document
        on controls.problem = without_document.problem
        and controls.model_id = without_document.model_id
        and controls.probe = without_document.probe
        and controls.doc_id = without_document.doc_id
        and controls.segment = without_document.segment
)

select * from compared
