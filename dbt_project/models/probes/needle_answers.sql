with ledger as (
    select
        *,
        from_json(probe_params -> '$.depths', '["DOUBLE"]') as depths
    from {{ source('extract', 'units') }}
    where status = 'done'
        and condition_kind in ('needle_present', 'needle_absent')
),

tokens as (
    select * from {{ source('extract', 'tokens') }}
),

-- As many sentences as depths; a segment is depth · sentences + sentence (warehouse/probes).
answers as (
    select
        ledger.problem,
        ledger.model_id,
        ledger.probe,
        ledger.doc_id,
        ledger.document_tokens,
        ledger.condition_kind as kind,
        tokens.segment % len(ledger.depths) as sentence,
        ledger.depths[tokens.segment // len(ledger.depths) + 1] as depth,
        count(*) as tokens,
        -sum(cast(tokens.logprob as double)) as nll,
        arg_min(tokens.rank, tokens.position) = 1 as first_token_right,
        max(tokens.rank) = 1 as all_tokens_right
    from tokens
    inner join ledger using (problem, model_id, condition, doc_id)
    group by all
),

present as (
    select * exclude (kind) from answers
    where kind = 'needle_present'
),

needle_answers as (
    select
        present.*,
        absent.nll as absent_nll,
        absent.first_token_right as absent_first_token_right
    from present
    inner join answers as absent using (problem, model_id, probe, doc_id, sentence)
    where absent.kind = 'needle_absent'
)

select * from needle_answers
