with rungs as (
    select * from {{ ref('ladder_rungs') }}
    where rungs > 1
),

steps as (
    select
        *,
        lag(gain) over ladder as shorter_gain,
        lag(doublings) over ladder as shorter_doublings
    from rungs
    window ladder as (partition by problem, model_id, probe, doc_id order by rung)
),

-- One curve per document: gain, in nats a token, against doublings of the context.
ladder_curves as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        any_value(tokens) as tokens,
        any_value(shortest_nll) as shortest_nll,
        arg_max(gain, rung) as total,
        max(doublings) as doublings,
        sum(doublings * gain) - sum(doublings) * sum(gain) / count(*) as s_xy,
        sum(doublings * doublings) - sum(doublings) * sum(doublings) / count(*) as s_xx,
        sum((gain + shorter_gain) / 2 * (doublings - shorter_doublings)) as area
    from steps
    group by problem, model_id, probe, doc_id, document_tokens
)

select * from ladder_curves
