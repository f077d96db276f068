with nll_quantiles as (
    select * from {{ ref('int_nll_quantiles') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'nll_quantile'
),

documents as (
    select
        nll_quantiles.problem,
        nll_quantiles.model_id,
        nll_quantiles.doc_id,
        nll_quantiles.document_tokens,
        variants.variant,
        nll_quantiles.value as numerator,
        1 as denominator,
        nll_quantiles.tokens
    from nll_quantiles
    inner join variants
        on nll_quantiles.quantile is not distinct from variants.quantile
        and nll_quantiles.worst_share is not distinct from variants.worst_share
),

nll_quantile as (
    {{ per_document('documents') }}
)

select * from nll_quantile
