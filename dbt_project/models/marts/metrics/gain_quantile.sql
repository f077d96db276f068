with gain_order as (
    select * from {{ ref('int_gain_order') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'gain_quantile'
),

terms as (
    select
        gain_order.problem,
        gain_order.model_id,
        gain_order.condition,
        gain_order.doc_id,
        variants.variant,
        gain_order.value as numerator,
        1 as denominator,
        gain_order.tokens
    from gain_order
    inner join variants
        on gain_order.quantile is not distinct from variants.quantile
        and gain_order.trim is not distinct from variants.trim
),

gain_quantile as (
    {{ over_documents('gain_quantile', 'terms', condition = 'condition') }}
)

select * from gain_quantile
