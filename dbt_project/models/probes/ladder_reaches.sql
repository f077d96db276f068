with rungs as (
    select * from {{ ref('ladder_rungs') }}
),

steps as (
    select
        *,
        lag(gain) over ladder as shorter_gain,
        lag(doublings) over ladder as shorter_doublings,
        first_value(context) over ladder as shortest_context,
        arg_max(gain, rung) over (partition by problem, model_id, probe, doc_id) as total
    from rungs
    window ladder as (partition by problem, model_id, probe, doc_id order by rung)
),

shares as (
    select unnest([0.5, 0.75, 0.9]) as share
),

-- The first rung that has the share; documents whose longest rung gains nothing have none.
reached as (
    select
        steps.*,
        cast(shares.share as double) as share,
        cast(shares.share as double) * steps.total as wanted_gain
    from steps
    cross join shares
    where steps.total > 0
        and steps.gain >= wanted_gain
    qualify row_number() over (
            partition by steps.problem, steps.model_id, steps.probe, steps.doc_id, shares.share
            order by steps.rung
        ) = 1
),

-- Between two rungs the gain is taken to be a line in the logarithm of the context.
ladder_reaches as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        tokens,
        share,
        ln(shortest_context) + ln(2) * (
            shorter_doublings
            + (wanted_gain - shorter_gain) / (gain - shorter_gain)
            * (doublings - shorter_doublings)
        ) as log_context
    from reached
)

select * from ladder_reaches
