with documents as (
    {{ terms_over_bands(
        'text_key_gain',
        'int_word_pair_sums',
        numerator = 'sum(bands.short_nll_sum - bands.nll_sum)',
        band = word_band(),
    ) }}
),

text_key_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from text_key_gain
