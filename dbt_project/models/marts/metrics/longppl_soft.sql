with weighted_gain_sums as (
    select * from {{ ref('int_weighted_gain_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'longppl_soft'
),

documents as (
    select
        weighted_gain_sums.problem,
        weighted_gain_sums.model_id,
        weighted_gain_sums.condition,
        weighted_gain_sums.doc_id,
        weighted_gain_sums.document_tokens,
        variants.variant,
        weighted_gain_sums.weighted_nll_sum as numerator,
        weighted_gain_sums.weight_sum as denominator,
        weighted_gain_sums.tokens
    from weighted_gain_sums
    inner join variants
        on weighted_gain_sums.gamma = variants.gamma
),

longppl_soft as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from longppl_soft
