with terms as (
    {{ terms_over_bands(
        'longppl_soft',
        'int_gain_sums',
        numerator = "
            sum(if(
                bands.gain_floor >= ln(variants.gamma),
                variants.gamma * bands.nll_sum,
                bands.weighted_nll_sum
            ))
        ",
        denominator = "
            sum(if(
                bands.gain_floor >= ln(variants.gamma), variants.gamma * bands.tokens, bands.weight_sum
            ))
        ",
    ) }}
),

longppl_soft as (
    {{ over_documents(
        'longppl_soft',
        'terms',
        suffix = 'condition',
        weight = 'document_tokens',
        is_log = 'true',
    ) }}
)

select * from longppl_soft
