with feature_pair_sums as (
    select * from {{ ref('int_feature_pair_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'rare_word_gain'
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
        on case variants.word_kind
            when 'number' then feature_pair_sums.is_number
            else
                not feature_pair_sums.is_number
                and feature_pair_sums.frequency_ceiling <= variants.max_frequency
        end
    group by
        feature_pair_sums.problem,
        feature_pair_sums.model_id,
        feature_pair_sums.condition,
        feature_pair_sums.doc_id,
        variants.variant
),

rare_word_gain as (
    {{ over_documents('rare_word_gain', 'terms', suffix = 'condition') }}
)

select * from rare_word_gain
