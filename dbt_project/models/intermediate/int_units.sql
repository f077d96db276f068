with ledger as (
    select * from {{ ref('stg_units') }}
),

models as (
    select * from {{ ref('stg_models') }}
),

corpora as (
    select * from {{ ref('int_corpora') }}
),

units as (
    select
        ledger.problem,
        ledger.model_id,
        ledger.condition,
        ledger.doc_id,
        ledger.condition_kind as kind,
        ledger.probe,
        ledger.probe_params,
        ledger.document_tokens,
        ledger.rows as token_rows,
        models.tokenizer_sha256,
        models.parameters,
        corpora.corpus_id,
        hash(
            ledger.problem,
            ledger.model_id,
            ledger.condition,
            ledger.doc_id,
            ledger.document_tokens,
            ledger.content_sha256
        ) as unit_id
    from ledger
    inner join models
        on ledger.problem = models.problem
        and ledger.model_id = models.model_id
    left join corpora
        on ledger.problem = corpora.problem
    where ledger.status = 'done'
),

-- Models that share a tokenizer share a document's tokenisation; it is read once, in the unit
-- with most rows.
tokenisations as (
    select
        problem,
        tokenizer_sha256,
        doc_id,
        unit_id,
        hash(
            unit_id, {{ code_of('int_token_repeats') }}, {{ code_of('int_token_overlaps') }}
        ) as tokenisation_id,
        hash(unit_id, corpus_id, {{ code_of('int_token_words') }}) as token_features_id
    from units
    where kind = 'full'
    qualify row_number() over (
            partition by problem, tokenizer_sha256, doc_id
            order by token_rows desc, model_id asc
        ) = 1
),

with_tokenisation as (
    select
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        units.kind,
        units.probe,
        units.probe_params,
        units.document_tokens,
        units.parameters,
        units.tokenizer_sha256,
        units.unit_id,
        tokenisations.tokenisation_id,
        tokenisations.token_features_id,
        units.unit_id = tokenisations.unit_id as represents_tokenisation
    from units
    left join tokenisations
        on units.problem = tokenisations.problem
        and units.tokenizer_sha256 = tokenisations.tokenizer_sha256
        and units.doc_id = tokenisations.doc_id
)

select * from with_tokenisation
