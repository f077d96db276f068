with ledger as (
    select * from {{ source('extract', 'units') }}
    where status = 'done'
        and condition_kind in ('copy_present', 'copy_absent')
),

tokens as (
    select * from {{ source('extract', 'tokens') }}
),

passages as (
    select
        ledger.problem,
        ledger.model_id,
        ledger.probe,
        ledger.doc_id,
        ledger.document_tokens,
        ledger.condition_kind as kind,
        cast(ledger.probe_params ->> '$.length' as integer) as length,
        tokens.segment,
        count(*) as tokens,
        -sum(cast(tokens.logprob as double)) as nll,
        count_if(tokens.rank = 1) as top_1
    from tokens
    inner join ledger using (problem, model_id, condition, doc_id)
    group by all
),

copy_lengths as (
    select
        present.problem,
        present.model_id,
        present.probe,
        present.doc_id,
        present.document_tokens,
        present.length,
        cast(sum(present.tokens) as bigint) as tokens,
        sum(present.nll) / sum(present.tokens) as nll,
        sum(absent.nll) / sum(present.tokens) as absent_nll,
        sum(present.top_1) / sum(present.tokens) as accuracy,
        sum(absent.top_1) / sum(present.tokens) as absent_accuracy,
        present.length = max(present.length) over (
            partition by present.problem, present.model_id, present.probe, present.doc_id
        ) as is_longest
    from passages as present
    inner join passages as absent using (problem, model_id, probe, doc_id, length, segment)
    where present.kind = 'copy_present' and absent.kind = 'copy_absent'
    group by
        present.problem,
        present.model_id,
        present.probe,
        present.doc_id,
        present.document_tokens,
        present.length
)

select * from copy_lengths
