with moments as (
    {{ moments('nll_curvature', fewest = 3) }}
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
