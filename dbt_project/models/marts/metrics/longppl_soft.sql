with documents as (
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
    {{ per_document('documents', suffix = 'condition') }}
)

select * from longppl_soft
