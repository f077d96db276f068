with ledger as (
    select
        *,
        cast(probe_params ->> '$.length' as integer) as length,
        from_json(probe_params -> '$.lengths', '["INTEGER"]') as lengths
    from {{ source('extract', 'units') }}
    where status = 'done'
        and condition_kind = 'halves_foreign'
),

whole_documents as (
    select * from {{ source('extract', 'units') }}
    where status = 'done'
        and condition_kind = 'full'
        and (problem, model_id, doc_id) in (
            select
                ledger.problem,
                ledger.model_id,
                ledger.doc_id
            from ledger
        )
),

-- Read twice: one copy in memory would contain every token.
tokens as not materialized (
    select * from {{ source('extract', 'tokens') }}
),

after_another as (
    select
        ledger.problem,
        ledger.model_id,
        ledger.probe,
        ledger.doc_id,
        ledger.document_tokens,
        ledger.length,
        ledger.lengths,
        tokens.position,
        cast(tokens.logprob as double) as logprob
    from tokens
    inner join ledger using (problem, model_id, condition, doc_id)
),

-- The score of a token after its own first half is that of the whole document.
after_own as (
    select
        tokens.problem,
        tokens.model_id,
        tokens.doc_id,
        tokens.position,
        cast(tokens.logprob as double) as logprob
    from tokens
    inner join whole_documents using (problem, model_id, condition, doc_id)
),

lengths as (
    select
        after_another.problem,
        after_another.model_id,
        after_another.probe,
        after_another.doc_id,
        after_another.document_tokens,
        after_another.length,
        any_value(after_another.lengths) as lengths,
        count(*) as tokens,
        sum(after_own.logprob - after_another.logprob) as information
    from after_another
    inner join after_own using (problem, model_id, doc_id, position)
    group by all
),

half_information as (
    select
        * exclude (lengths),
        length = lengths[1] as is_shortest,
        length = lengths[-1] as is_longest,
        count(*) over (partition by problem, model_id, probe, doc_id) = len(lengths)
            as has_every_length
    from lengths
)

select * from half_information
