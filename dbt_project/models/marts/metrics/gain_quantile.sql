with gain_quantiles as (
    select * from {{ ref('int_gain_quantiles') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'gain_quantile'
),

documents as (
    select
        gain_quantiles.problem,
        gain_quantiles.model_id,
        gain_quantiles.condition,
        gain_quantiles.doc_id,
        gain_quantiles.document_tokens,
        variants.variant,
        gain_quantiles.value as numerator,
        1 as denominator,
        gain_quantiles.tokens
    from gain_quantiles
    inner join variants
        on gain_quantiles.quantile is not distinct from variants.quantile
        and gain_quantiles.trim is not distinct from variants.trim
),

gain_quantile as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from gain_quantile
