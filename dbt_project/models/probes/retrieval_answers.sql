with ledger as (
    select * from {{ source('extract', 'units') }}
    where status = 'done'
        and starts_with(condition_kind, 'retrieval_')
),

tokens as (
    select * from {{ source('extract', 'tokens') }}
),

answers as (
    select
        ledger.problem,
        ledger.model_id,
        ledger.probe,
        ledger.doc_id,
        ledger.document_tokens,
        tokens.segment,
        ledger.condition_kind as kind,
        count(*) as tokens,
        -sum(cast(tokens.logprob as double)) as nll,
        count_if(tokens.rank = 1) as top_1,
        -- how many of its first tokens were all the model's top-1
        coalesce(
            min(tokens.position) filter (where tokens.rank > 1), max(tokens.position) + 1
        ) - min(tokens.position) as right_prefix,
        min(tokens.position) as first_position,
        min(tokens.char_start) as first_character
    from tokens
    inner join ledger using (problem, model_id, condition, doc_id)
    group by all
)

select * from answers
