with pair_sums as (
    select * from {{ ref('int_pair_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'rank_gain'
),

terms as (
    select
        pair_sums.problem,
        pair_sums.model_id,
        pair_sums.condition,
        pair_sums.doc_id,
        variants.variant,
        sum(
            case variants.statistic
                when 'top_1' then pair_sums.top_1 - pair_sums.short_top_1
                when 'top_5' then pair_sums.top_5 - pair_sums.short_top_5
                when 'reciprocal_rank'
                    then pair_sums.reciprocal_rank_sum - pair_sums.short_reciprocal_rank_sum
            end
        ) as numerator,
        sum(pair_sums.tokens) as denominator,
        sum(pair_sums.tokens) as tokens
    from pair_sums
    cross join variants
    group by
        pair_sums.problem,
        pair_sums.model_id,
        pair_sums.condition,
        pair_sums.doc_id,
        variants.variant
),

rank_gain as (
    {{ over_documents('rank_gain', 'terms', suffix = 'condition') }}
)

select * from rank_gain
