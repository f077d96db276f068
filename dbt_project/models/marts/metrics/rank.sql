with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'rank'
),

terms as (
    select
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        sum(
            case variants.statistic
                when 'top_1' then position_sums.top_1
                when 'top_5' then position_sums.top_5
                when 'top_10' then position_sums.top_10
                when 'reciprocal_rank' then position_sums.reciprocal_rank_sum
            end
        ) as numerator,
        sum(position_sums.tokens) as denominator,
        sum(position_sums.tokens) as tokens
    from position_sums
    inner join variants
        on position_sums.share_floor >= coalesce(variants.from_share, 0)
        and position_sums.share_floor < coalesce(variants.to_share, 1)
        and position_sums.tail_ceiling <= coalesce(variants.tail_tokens, 2147483647)
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant
),

rank as (
    {{ over_documents('rank', 'terms') }}
)

select * from rank
