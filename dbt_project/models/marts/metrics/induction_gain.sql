with documents as (
    {{ terms_over_bands(
        'induction_gain',
        'int_repeat_pair_sums',
        numerator = 'sum(bands.short_nll_sum - bands.nll_sum)',
        band = repeated_within() ~ " and (not coalesce(variants.beyond_window, false)
            or if(variants.ngram = 2, bands.bigram_is_beyond, bands.fourgram_is_beyond))",
    ) }}
),

induction_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from induction_gain
