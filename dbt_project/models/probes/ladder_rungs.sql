with tokens as (
    {{ probe_tokens("condition_kind = 'ladder'") }}
),

-- Every rung of a document scores the same tokens, so sums are compared without a join of tokens.
sums as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        cast(probe_params ->> '$.context' as integer) as context,
        count(*) as tokens,
        -sum(cast(logprob as double)) as nll_sum
    from tokens
    group by all
),

-- A rung is measured against the shortest one: how many doublings longer, how many nats a token
-- better. The tokens of a document's rungs differ only while one of them is being extracted again.
ladder_rungs as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        context,
        tokens,
        nll_sum / tokens as nll,
        first_value(nll_sum / tokens) over ladder as shortest_nll,
        shortest_nll - nll as gain,
        log2(context / first_value(context) over ladder) as doublings,
        row_number() over ladder as rung,
        count(*) over (partition by problem, model_id, probe, doc_id) as rungs
    from sums
    window ladder as (partition by problem, model_id, probe, doc_id order by context)
    qualify count(distinct tokens) over (partition by problem, model_id, probe, doc_id) = 1
)

select * from ladder_rungs
