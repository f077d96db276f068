with feature_sums as (
    select * from {{ ref('int_feature_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'induction_nll'
),

terms as (
    select
        feature_sums.problem,
        feature_sums.model_id,
        feature_sums.doc_id,
        variants.variant,
        sum(feature_sums.nll_sum) as numerator,
        sum(feature_sums.tokens) as denominator,
        sum(feature_sums.tokens) as tokens
    from feature_sums
    inner join variants
        on {{ repeated_within('feature_sums') }}
    group by
        feature_sums.problem,
        feature_sums.model_id,
        feature_sums.doc_id,
        variants.variant
),

induction_nll as (
    {{ over_documents('induction_nll', 'terms') }}
)

select * from induction_nll
