with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'nll_slope'
),

moments as (
    select
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        sum(position_sums.tokens) as tokens,
        sum(position_sums.nll_sum) as y_sum,
        sum(position_sums.x_sum) as x_sum,
        sum(position_sums.xx_sum) as xx_sum,
        sum(position_sums.xy_sum) as xy_sum
    from position_sums
    inner join variants
        on position_sums.position_floor >= variants.from_position
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant
    having sum(position_sums.tokens) > 2
),

terms as (
    select
        problem,
        model_id,
        doc_id,
        variant,
        xy_sum - x_sum * y_sum / tokens as numerator,
        xx_sum - x_sum * x_sum / tokens as denominator,
        tokens
    from moments
),

nll_slope as (
    {{ over_documents('nll_slope', 'terms') }}
)

select * from nll_slope
