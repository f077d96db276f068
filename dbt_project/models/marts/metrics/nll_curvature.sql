with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'nll_curvature'
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
        sum(position_sums.xxx_sum) as xxx_sum,
        sum(position_sums.xxxx_sum) as xxxx_sum,
        sum(position_sums.xy_sum) as xy_sum,
        sum(position_sums.xxy_sum) as xxy_sum
    from position_sums
    inner join variants
        on position_sums.position_floor >= variants.from_position
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant
    having sum(position_sums.tokens) > 3
),

-- Sums of squares and products about the mean, with z = x².
centred as (
    select
        *,
        xx_sum - x_sum * x_sum / tokens as s_xx,
        xxx_sum - x_sum * xx_sum / tokens as s_xz,
        xxxx_sum - xx_sum * xx_sum / tokens as s_zz,
        xy_sum - x_sum * y_sum / tokens as s_xy,
        xxy_sum - xx_sum * y_sum / tokens as s_zy
    from moments
),

-- The coefficient of z beside x is the slope on what x leaves unexplained of z.
terms as (
    select
        problem,
        model_id,
        doc_id,
        variant,
        s_zy - s_xz * s_xy / s_xx as numerator,
        s_zz - s_xz * s_xz / s_xx as denominator,
        tokens
    from centred
),

nll_curvature as (
    {{ over_documents('nll_curvature', 'terms') }}
)

select * from nll_curvature
