with documents as (
    {{ documents_over_regions(
        'rank_gain',
        'int_region_pair_sums',
        numerator = "
            case variants.statistic
                when 'top_1' then sums.top_1 - sums.short_top_1
                when 'top_5' then sums.top_5 - sums.short_top_5
                when 'reciprocal_rank' then sums.reciprocal_rank_sum - sums.short_reciprocal_rank_sum
            end
        ",
    ) }}
),

rank_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from rank_gain
