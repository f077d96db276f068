with gain_sums as (
    select * from {{ ref('int_gain_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'context_gain'
),

terms as (
    select
        gain_sums.problem,
        gain_sums.model_id,
        gain_sums.condition,
        gain_sums.doc_id,
        variants.variant,
        sum(
            case variants.statistic
                when 'share_positive' then gain_sums.tokens_with_gain
                when 'share_above'
                    then if(gain_sums.gain_floor >= variants.alpha, gain_sums.tokens, 0)
                when 'clipped'
                    then case
                            when gain_sums.gain_floor >= variants.clip
                                then variants.clip * gain_sums.tokens
                            when gain_sums.gain_floor < -variants.clip
                                then -variants.clip * gain_sums.tokens
                            else gain_sums.gain_sum
                        end
                else gain_sums.gain_sum
            end
        ) as numerator,
        sum(
            case variants.statistic
                when 'relative' then gain_sums.short_nll_sum
                else gain_sums.tokens
            end
        ) as denominator,
        sum(gain_sums.tokens) as tokens
    from gain_sums
    cross join variants
    group by
        gain_sums.problem,
        gain_sums.model_id,
        gain_sums.condition,
        gain_sums.doc_id,
        variants.variant
),

context_gain as (
    {{ over_documents('context_gain', 'terms', suffix = 'condition') }}
)

select * from context_gain
