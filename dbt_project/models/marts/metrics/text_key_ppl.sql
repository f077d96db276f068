with documents as (
    {{ terms_over_bands(
        'text_key_ppl',
        'int_word_sums',
        numerator = 'sum(bands.nll_sum)',
        band = word_band(),
    ) }}
),

text_key_ppl as (
    {{ per_document('documents') }}
)

select * from text_key_ppl
