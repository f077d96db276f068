with documents as (
    {{ terms_over_bands(
        'rare_word_nll',
        'int_word_sums',
        numerator = 'sum(bands.nll_sum)',
        band = word_band(),
    ) }}
),

rare_word_nll as (
    {{ per_document('documents') }}
)

select * from rare_word_nll
