with documents as (
    {{ terms_over_bands(
        'entropy',
        'int_position_sums',
        numerator = "
            sum(case variants.statistic
                when 'entropy' then bands.entropy_sum
                when 'nll_minus_entropy' then bands.nll_sum - bands.entropy_sum
                when 'first_choice_nll' then -bands.top_logprob_sum
            end)
        ",
        band = 'bands.tail_ceiling <= coalesce(variants.tail_tokens, 2147483647)',
    ) }}
),

entropy as (
    {{ per_document('documents') }}
)

select * from entropy
