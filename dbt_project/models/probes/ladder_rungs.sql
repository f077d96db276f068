with ledger as (
    select * from {{ source('extract', 'units') }}
    where status = 'done'
        and condition_kind = 'ladder'
),

tokens as (
    select * from {{ source('extract', 'tokens') }}
),

-- Every rung of a document scores the same tokens, so sums are compared without a join of tokens.
sums as (
    select
        ledger.problem,
        ledger.model_id,
        ledger.probe,
        ledger.doc_id,
        ledger.document_tokens,
        cast(ledger.probe_params ->> '$.context' as integer) as context,
        count(*) as tokens,
        -sum(cast(tokens.logprob as double)) as nll_sum
    from tokens
    inner join ledger using (problem, model_id, condition, doc_id)
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
