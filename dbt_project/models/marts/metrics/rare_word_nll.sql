with terms as (
    {{ terms_over_bands(
        'rare_word_nll',
        'int_feature_sums',
        numerator = 'sum(bands.nll_sum)',
        band = word_band(),
    ) }}
),

rare_word_nll as (
    {{ over_documents('rare_word_nll', 'terms') }}
)

select * from rare_word_nll
