with feature_pair_sums as (
    select * from {{ ref('int_feature_pair_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'induction_gain'
),

terms as (
    select
        feature_pair_sums.problem,
        feature_pair_sums.model_id,
        feature_pair_sums.condition,
        feature_pair_sums.doc_id,
        variants.variant,
        sum(feature_pair_sums.short_nll_sum - feature_pair_sums.nll_sum) as numerator,
        sum(feature_pair_sums.tokens) as denominator,
        sum(feature_pair_sums.tokens) as tokens
    from feature_pair_sums
    inner join variants
        on {{ repeated_within('feature_pair_sums') }}
    group by
        feature_pair_sums.problem,
        feature_pair_sums.model_id,
        feature_pair_sums.condition,
        feature_pair_sums.doc_id,
        variants.variant
),

induction_gain as (
    {{ over_documents('induction_gain', 'terms', suffix = 'condition') }}
)

select * from induction_gain
