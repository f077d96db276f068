with rungs as (
    select * from {{ ref('int_ladder_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'ladder_reach'
),

steps as (
    select
        *,
        lag(gain) over ladder as shorter_gain,
        lag(doublings) over ladder as shorter_doublings,
        first_value(context) over ladder as shortest_context,
        last_value(gain) over (
            partition by problem, model_id, probe, doc_id
            order by rung
            rows between unbounded preceding and unbounded following
        ) as total
    from rungs
    window ladder as (partition by problem, model_id, probe, doc_id order by rung)
),

-- The first rung that has the share; documents whose longest rung gains nothing have none.
reached as (
    select
        steps.*,
        variants.variant,
        variants.to_share * steps.total as wanted_gain
    from steps
    cross join variants
    where steps.total > 0
        and steps.gain >= variants.to_share * steps.total
    qualify row_number() over (
            partition by
                steps.problem, steps.model_id, steps.probe, steps.doc_id, variants.variant
            order by steps.rung
        ) = 1
),

-- Between two rungs the gain is taken to be a line in the logarithm of the context.
documents as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        variant,
        ln(shortest_context) + ln(2) * (
            shorter_doublings
            + (wanted_gain - shorter_gain) / (gain - shorter_gain)
            * (doublings - shorter_doublings)
        ) as numerator,
        1 as denominator,
        tokens
    from reached
),

ladder_reach as (
    {{ per_document('documents', suffix = 'probe') }}
)

select * from ladder_reach
