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
        pair_sums.condition,
        pair_sums.doc_id,
        variants.variant,
        sum(pair_sums.short_nll_sum - pair_sums.nll_sum) as numerator,
        sum(pair_sums.tokens) as denominator,
        sum(pair_sums.tokens) as tokens
    from pair_sums
    inner join variants
        on {{ position_band('pair_sums') }}
    group by
        pair_sums.problem,
        pair_sums.model_id,
        pair_sums.condition,
        pair_sums.doc_id,
        variants.variant
),

position_gain as (
    {{ over_documents('position_gain', 'terms', suffix = 'condition') }}
)

select * from position_gain
