with documents as (
    {{ terms_over_bands(
        'rank_gain',
        'int_pair_sums',
        numerator = "
            sum(case variants.statistic
                when 'top_1' then bands.top_1 - bands.short_top_1
                when 'top_5' then bands.top_5 - bands.short_top_5
                when 'reciprocal_rank' then bands.reciprocal_rank_sum - bands.short_reciprocal_rank_sum
            end)
        ",
    ) }}
),

rank_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from rank_gain
