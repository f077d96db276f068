with documents as (
    {{ terms_over_bands(
        'rare_word_gain',
        'int_word_pair_sums',
        numerator = 'sum(bands.short_nll_sum - bands.nll_sum)',
        band = word_band(),
    ) }}
),

rare_word_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from rare_word_gain
