with documents as (
    {{ terms_over_bands(
        'position_gain',
        'int_pair_sums',
        numerator = 'sum(bands.short_nll_sum - bands.nll_sum)',
        band = position_band(),
    ) }}
),

position_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from position_gain
