with documents as (
    {{ terms_over_bands(
        'distance_frequency_gain',
        'int_word_pair_sums',
        numerator = 'sum(bands.short_nll_sum - bands.nll_sum)',
        band = word_band(),
    ) }}
),

distance_frequency_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from distance_frequency_gain
