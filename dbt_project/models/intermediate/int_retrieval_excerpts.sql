with units as (
    select * from {{ ref('int_units') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

answers as (
    select
        units.kind,
        units.probe,
        units.document_tokens,
        token_stats.*
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    where units.kind in ('retrieval_with_document', 'retrieval_without_document')
),

with_document as (
    select * from answers
    where kind = 'retrieval_with_document'
),

without_document as (
    select * from answers
    where kind = 'retrieval_without_document'
),

excerpts as (
    select
        with_document.problem,
        with_document.model_id,
        with_document.probe,
        with_document.doc_id,
        with_document.segment,
        count(*) as tokens,
        -sum(cast(with_document.logprob as double)) as nll_sum,
        -sum(cast(without_document.logprob as double)) as without_document_nll_sum,
        sum(
            cast(with_document.logprob as double) - cast(without_document.logprob as double)
        ) as gain_sum,
        count(*) filter (where with_document.rank = 1) as top_1,
        count(*) filter (where without_document.rank = 1) as without_document_top_1,
        {{ right_prefix('with_document') }} as right_prefix,
        {{ right_prefix('without_document') }} as without_document_right_prefix,
        min(with_document.position) as first_position,
        min(with_document.char_start) as first_character,
        any_value(with_document.document_tokens) as document_tokens
    from with_document
    inner join without_document
        on with_document.problem = without_document.problem
        and with_document.model_id = without_document.model_id
        and with_document.probe = without_document.probe
        and with_document.doc_id = without_document.doc_id
        and with_document.segment = without_document.segment
        and with_document.position = without_document.position
    group by all
)

select * from excerpts
