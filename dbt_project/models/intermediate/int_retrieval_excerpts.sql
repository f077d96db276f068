with conditions as (
    select * from {{ ref('int_conditions') }}
),

units as (
    select * from {{ ref('int_units') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

answers as (
    select
        conditions.kind,
        conditions.probe,
        units.document_tokens,
        token_stats.*
    from token_stats
    inner join conditions
        on token_stats.problem = conditions.problem
        and token_stats.model_id = conditions.model_id
        and token_stats.condition = conditions.condition
    inner join units
        on token_stats.problem = units.problem
        and token_stats.model_id = units.model_id
        and token_stats.condition = units.condition
        and token_stats.doc_id = units.doc_id
    where conditions.kind in ('retrieval_with_document', 'retrieval_without_document')
),

excerpts as (
    select
        after_document.problem,
        after_document.model_id,
        after_document.probe,
        after_document.doc_id,
        after_document.segment,
        count(*) as tokens,
        -sum(cast(after_document.logprob as double)) as nll_sum,
        -sum(cast(alone.logprob as double)) as alone_nll_sum,
        sum(cast(after_document.logprob as double) - cast(alone.logprob as double)) as gain_sum,
        count(*) filter (where after_document.rank = 1) as top_1,
        count(*) filter (where alone.rank = 1) as alone_top_1,
        min(after_document.position) as first_position,
        any_value(after_document.document_tokens) as document_tokens
    from answers as after_document
    inner join answers as alone
        on after_document.problem = alone.problem
        and after_document.model_id = alone.model_id
        and after_document.probe = alone.probe
        and after_document.doc_id = alone.doc_id
        and after_document.segment = alone.segment
        and after_document.position = alone.position
    where after_document.kind = 'retrieval_with_document'
        and alone.kind = 'retrieval_without_document'
    group by
        after_document.problem,
        after_document.model_id,
        after_document.probe,
        after_document.doc_id,
        after_document.segment
)

select * from excerpts
