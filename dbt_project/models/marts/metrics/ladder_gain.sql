with rungs as (
    select * from {{ ref('int_ladder_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'ladder_gain'
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
curves as (
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
    where rungs > 1
    group by problem, model_id, probe, doc_id, document_tokens
),

documents as (
    select
        curves.problem,
        curves.model_id,
        curves.probe,
        curves.doc_id,
        curves.document_tokens,
        variants.variant,
        curves.tokens * case variants.statistic
            when 'per_doubling' then curves.s_xy
            when 'area' then curves.area / curves.doublings
            else curves.total
        end as numerator,
        curves.tokens * case variants.statistic
            when 'per_doubling' then curves.s_xx
            when 'relative' then curves.shortest_nll
            else 1
        end as denominator,
        curves.tokens
    from curves
    cross join variants
),

ladder_gain as (
    {{ per_document('documents', suffix = 'probe') }}
)

select * from ladder_gain
