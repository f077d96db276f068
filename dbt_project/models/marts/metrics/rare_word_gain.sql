with terms as (
    {{ terms_over_bands(
        'rare_word_gain',
        'int_feature_pair_sums',
        numerator = 'sum(bands.short_nll_sum - bands.nll_sum)',
        band = word_band(),
    ) }}
),

rare_word_gain as (
    {{ over_documents('rare_word_gain', 'terms', suffix = 'condition') }}
)

select * from rare_word_gain
