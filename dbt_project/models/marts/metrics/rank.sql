with documents as (
    {{ documents_over_regions(
        'rank',
        'int_region_sums',
        numerator = "
            case variants.statistic
                when 'top_1' then sums.top_1
                when 'top_5' then sums.top_5
                when 'top_10' then sums.top_10
                when 'reciprocal_rank' then sums.reciprocal_rank_sum
            end
        ",
    ) }}
),

rank as (
    {{ per_document('documents') }}
)

select * from rank
