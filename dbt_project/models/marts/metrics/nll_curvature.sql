-- The coefficient of x² beside x is the slope on what x leaves unexplained of x².
with documents as (
    {{ documents_over_regions(
        'nll_curvature',
        'int_slope_sums',
        numerator = 'sums.s_x2_nll - sums.s_x_x2 * sums.s_x_nll / sums.s_x_x',
        denominator = 'sums.s_x2_x2 - sums.s_x_x2 * sums.s_x_x2 / sums.s_x_x',
    ) }}
),

nll_curvature as (
    {{ per_document('documents') }}
)

select * from nll_curvature
