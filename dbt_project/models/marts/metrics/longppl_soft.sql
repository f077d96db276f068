with gain_sums as (
    select * from {{ ref('int_gain_sums') }}
),

variants as (
    select
        *,
        ln(gamma) as ceiling_gain
    from {{ ref('stg_metric_variants') }}
    where metric = 'longppl_soft'
),

terms as (
    select
        gain_sums.problem,
        gain_sums.model_id,
        gain_sums.condition,
        gain_sums.doc_id,
        gain_sums.document_tokens,
        variants.variant,
        sum(
            case
                when gain_sums.gain_floor >= variants.ceiling_gain
                    then variants.gamma * gain_sums.nll_sum
                else gain_sums.weighted_nll_sum
            end
        ) as numerator,
        sum(
            case
                when gain_sums.gain_floor >= variants.ceiling_gain
                    then variants.gamma * gain_sums.tokens
                else gain_sums.weight_sum
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
        gain_sums.document_tokens,
        variants.variant
),

longppl_soft as (
    {{ over_documents(
        'longppl_soft',
        'terms',
        suffix = 'condition',
        weight = 'document_tokens',
        is_log = 'true',
    ) }}
)

select * from longppl_soft
