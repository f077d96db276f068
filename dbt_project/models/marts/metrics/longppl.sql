with key_sums as (
    select * from {{ ref('int_key_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'longppl'
),

documents as (
    select
        key_sums.problem,
        key_sums.model_id,
        key_sums.condition,
        key_sums.doc_id,
        key_sums.document_tokens,
        variants.variant,
        key_sums.nll_sum + key_sums.nll_beside as numerator,
        key_sums.tokens + key_sums.tokens_beside as denominator,
        key_sums.tokens + key_sums.tokens_beside as tokens
    from key_sums
    inner join variants
        on key_sums.alpha = variants.alpha
        and key_sums.beta = variants.beta
    where key_sums.tokens + key_sums.tokens_beside >= variants.min_document_tokens
),

longppl as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from longppl
