with documents as (
    {{ terms_over_bands(
        'rank',
        'int_position_sums',
        numerator = "
            sum(case variants.statistic
                when 'top_1' then bands.top_1
                when 'top_5' then bands.top_5
                when 'top_10' then bands.top_10
                when 'reciprocal_rank' then bands.reciprocal_rank_sum
            end)
        ",
        band = "
            bands.share_floor >= coalesce(variants.from_share, 0)
            and bands.share_floor < coalesce(variants.to_share, 1)
            and bands.tail_ceiling <= coalesce(variants.tail_tokens, 2147483647)
        ",
    ) }}
),

rank as (
    {{ per_document('documents') }}
)

select * from rank
