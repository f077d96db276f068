with documents as (
    {{ documents_over_regions(
        'nll_slope',
        'int_slope_sums',
        numerator = 'sums.s_x_nll',
        denominator = 'sums.s_x_x',
    ) }}
),

nll_slope as (
    {{ per_document('documents') }}
)

select * from nll_slope
