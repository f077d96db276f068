with moments as (
    {{ moments('nll_slope', fewest = 2) }}
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
