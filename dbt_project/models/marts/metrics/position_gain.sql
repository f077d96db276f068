with pair_sums as (
    select * from {{ ref('int_pair_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'position_gain'
),

terms as (
    select
        pair_sums.problem,
        pair_sums.model_id,
        pair_sums.probe,
        pair_sums.doc_id,
        variants.variant,
        sum(pair_sums.short_nll_sum - pair_sums.nll_sum) as numerator,
        sum(pair_sums.tokens) as denominator,
        sum(pair_sums.tokens) as tokens
    from pair_sums
    inner join variants
        on pair_sums.position_floor >= coalesce(variants.from_position, 0)
        and pair_sums.position_floor < coalesce(variants.to_position, 2147483647)
        and pair_sums.share_floor >= coalesce(variants.from_share, 0)
        and pair_sums.share_floor < coalesce(variants.to_share, 1)
    group by
        pair_sums.problem,
        pair_sums.model_id,
        pair_sums.probe,
        pair_sums.doc_id,
        variants.variant
),

position_gain as (
    {{ over_documents('position_gain', 'terms', probe = 'probe') }}
)

select * from position_gain
