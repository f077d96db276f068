with moments as (
    {{ position_moments('nll_curvature', fewest = 3) }}
),

-- Sums of squares and products about the mean.
centred as (
    select
        *,
        x2_sum - x_sum * x_sum / tokens as s_x_x,
        x3_sum - x_sum * x2_sum / tokens as s_x_x2,
        x4_sum - x2_sum * x2_sum / tokens as s_x2_x2,
        x_y_sum - x_sum * y_sum / tokens as s_x_y,
        x2_y_sum - x2_sum * y_sum / tokens as s_x2_y
    from moments
),

-- The coefficient of x² beside x is the slope on what x leaves unexplained of x².
documents as (
    select
        *,
        s_x2_y - s_x_x2 * s_x_y / s_x_x as numerator,
        s_x2_x2 - s_x_x2 * s_x_x2 / s_x_x as denominator
    from centred
),

nll_curvature as (
    {{ per_document('documents') }}
)

select * from nll_curvature
