with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'entropy'
),

terms as (
    select
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        sum(
            case variants.statistic
                when 'entropy' then position_sums.entropy_sum
                when 'nll_minus_entropy' then position_sums.nll_sum - position_sums.entropy_sum
                when 'first_choice_nll' then -position_sums.top_logprob_sum
            end
        ) as numerator,
        sum(position_sums.tokens) as denominator,
        sum(position_sums.tokens) as tokens
    from position_sums
    inner join variants
        on position_sums.tail_ceiling <= coalesce(variants.tail_tokens, 2147483647)
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant
),

entropy as (
    {{ over_documents('entropy', 'terms') }}
)

select * from entropy
