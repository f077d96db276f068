with documents as (
    {{ terms_over_bands(
        'context_gain',
        'int_gain_sums',
        numerator = "
            sum(case variants.statistic
                when 'share_positive' then bands.tokens_with_gain
                when 'share_above' then if(bands.gain_floor >= variants.alpha, bands.tokens, 0)
                when 'clipped'
                    then case
                        when bands.gain_floor >= variants.clip then variants.clip * bands.tokens
                        when bands.gain_floor < -variants.clip then -variants.clip * bands.tokens
                        else bands.gain_sum
                    end
                else bands.gain_sum
            end)
        ",
        denominator = "sum(if(variants.statistic = 'relative', bands.short_nll_sum, bands.tokens))",
    ) }}
),

context_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from context_gain
