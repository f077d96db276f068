with moments as (
    {{ position_moments('nll_slope', fewest = 2) }}
),

documents as (
    select
        *,
        x_y_sum - x_sum * y_sum / tokens as numerator,
        x2_sum - x_sum * x_sum / tokens as denominator
    from moments
),

nll_slope as (
    {{ per_document('documents') }}
)

select * from nll_slope
