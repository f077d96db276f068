{{ config(materialized = 'table') }}

with units as (
    select * from {{ ref('token_units') }}
),

token_pairs as (
    select
        unit_id,
        cast(entropy as double) as entropy,
        cast(short_entropy as double) as short_entropy
    from {{ ref('fct_tokens') }}
    where gain is not null
),

-- A document sets its own threshold.
documents as (
    select
        unit_id,
        avg(short_entropy) as mean,
        stddev_pop(short_entropy) as deviation
    from token_pairs
    group by unit_id
),

uncertain_tokens as (
    select
        units.problem,
        units.model_id,
        units.doc_id,
        units.document_tokens,
        units.pair,
        (token_pairs.short_entropy - documents.mean) / documents.deviation as deviations,
        (token_pairs.short_entropy - token_pairs.entropy) / token_pairs.short_entropy as resolved
    from token_pairs
    inner join documents
        on token_pairs.unit_id = documents.unit_id
    inner join units
        on token_pairs.unit_id = units.unit_id
    where token_pairs.short_entropy > documents.mean + documents.deviation
),

entropy_resolved as (
    {{ variant_sums(variants(metric = 'entropy_resolved'), suffix = 'pair') }}
)

select * from entropy_resolved
