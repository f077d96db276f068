with external_key_sums as (
    select * from {{ ref('int_external_key_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'longppl_external'
),

documents as (
    select
        external_key_sums.problem,
        external_key_sums.model_id,
        external_key_sums.condition,
        external_key_sums.doc_id,
        external_key_sums.document_tokens,
        variants.variant,
        external_key_sums.nll_sum as numerator,
        external_key_sums.tokens as denominator,
        external_key_sums.tokens
    from external_key_sums
    inner join variants
        on external_key_sums.evaluator = variants.evaluator
        and external_key_sums.alpha = variants.alpha
        and external_key_sums.beta = variants.beta
),

longppl_external as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from longppl_external
