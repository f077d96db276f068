with gain_sums as (
    select * from {{ ref('int_gain_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'key_share'
),

key_sums as (
    select
        gain_sums.problem,
        gain_sums.model_id,
        gain_sums.condition,
        gain_sums.doc_id,
        gain_sums.document_tokens,
        variants.variant,
        variants.statistic,
        sum(gain_sums.tokens) as tokens,
        sum(gain_sums.characters) as characters,
        coalesce(
            sum(gain_sums.tokens) filter (
                where gain_sums.gain_floor >= variants.alpha
                and gain_sums.logprob_floor >= variants.beta
            ),
            0
        ) as key_tokens,
        coalesce(
            sum(gain_sums.gain_sum) filter (
                where gain_sums.gain_floor >= variants.alpha
                and gain_sums.logprob_floor >= variants.beta
            ),
            0
        ) as key_gain_sum
    from gain_sums
    cross join variants
    group by all
),

documents as (
    select
        problem,
        model_id,
        condition,
        doc_id,
        document_tokens,
        variant,
        case when statistic = 'gain' then key_gain_sum else key_tokens end as numerator,
        case statistic
            when 'density' then characters / 1000
            when 'gain' then key_tokens
            else tokens
        end as denominator,
        case when statistic = 'gain' then key_tokens else tokens end as tokens
    from key_sums
),

key_share as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from key_share
