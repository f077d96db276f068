with documents as (
    {{ documents_over_regions(
        'entropy',
        'int_region_sums',
        numerator = "
            case variants.statistic
                when 'entropy' then sums.entropy_sum
                when 'nll_minus_entropy' then sums.nll_sum - sums.entropy_sum
                when 'first_choice_nll' then -sums.top_logprob_sum
                when 'weighted_nll' then sums.entropy_nll_sum
            end
        ",
        denominator = "if(variants.statistic = 'weighted_nll', sums.entropy_sum, sums.tokens)",
    ) }}
),

entropy as (
    {{ per_document('documents') }}
)

select * from entropy
