with pair_sums as (
    select * from {{ ref('int_pair_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'entropy_drop'
),

terms as (
    select
        pair_sums.problem,
        pair_sums.model_id,
        pair_sums.condition,
        pair_sums.doc_id,
        variants.variant,
        sum(pair_sums.short_entropy_sum - pair_sums.entropy_sum) as numerator,
        sum(
            case variants.statistic
                when 'relative' then pair_sums.short_entropy_sum
                else pair_sums.tokens
            end
        ) as denominator,
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

entropy_drop as (
    {{ over_documents('entropy_drop', 'terms', suffix = 'condition') }}
)

select * from entropy_drop
