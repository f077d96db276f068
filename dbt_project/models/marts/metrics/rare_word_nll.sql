with feature_sums as (
    select * from {{ ref('int_feature_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'rare_word_nll'
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
        on case variants.word_kind
            when 'number' then feature_sums.is_number
            else
                not feature_sums.is_number
                and feature_sums.frequency_ceiling <= variants.max_frequency
        end
    group by
        feature_sums.problem,
        feature_sums.model_id,
        feature_sums.doc_id,
        variants.variant
),

rare_word_nll as (
    {{ over_documents('rare_word_nll', 'terms') }}
)

select * from rare_word_nll
