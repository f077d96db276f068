with units as (
    select
        *,
        cast(probe_params ->> '$.context' as integer) as context
    from {{ ref('int_units') }}
    where kind = 'ladder'
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

-- Every rung of a document scores the same tokens, so sums are compared without a join of tokens.
sums as (
    select
        units.problem,
        units.model_id,
        units.probe,
        units.doc_id,
        units.document_tokens,
        units.context,
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    group by all
),

-- A rung is measured against the shortest one: how many doublings longer, how many nats a token
-- better. The tokens of a document's rungs differ only when one of them is being extracted anew.
rungs as (
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
        log2(context / first_value(context) over ladder) as doublings,
        row_number() over ladder as rung,
        count(*) over (partition by problem, model_id, probe, doc_id) as rungs
    from sums
    window ladder as (partition by problem, model_id, probe, doc_id order by context)
    qualify count(distinct tokens) over (partition by problem, model_id, probe, doc_id) = 1
)

select
    *,
    shortest_nll - nll as gain
from rungs
