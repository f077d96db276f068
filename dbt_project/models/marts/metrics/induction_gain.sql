with documents as (
    {{ terms_over_bands(
        'induction_gain',
        'int_feature_pair_sums',
        numerator = 'sum(bands.short_nll_sum - bands.nll_sum)',
        band = repeated_within(),
    ) }}
),

induction_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from induction_gain
