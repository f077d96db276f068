with documents as (
    {{ terms_over_bands(
        'induction_nll',
        'int_repeat_sums',
        numerator = 'sum(bands.nll_sum)',
        band = repeated_within(),
    ) }}
),

induction_nll as (
    {{ per_document('documents') }}
)

select * from induction_nll
