{{ config(materialized = 'view') }}

with units as (
    select * from {{ source('extract', 'units') }}
    where status = 'done'
        and condition_kind = 'divergence'
),

divergences as (
    select * from {{ source('extract', 'divergences') }}
),

divergence_tokens as (
    select
        units.problem,
        units.model_id,
        units.probe,
        units.doc_id,
        units.document_tokens,
        divergences.position,
        cast(divergences.kl_reference_model as double) as kl_reference_model,
        cast(divergences.kl_model_reference as double) as kl_model_reference,
        divergences.same_top
    from divergences
    inner join units using (problem, model_id, condition, doc_id)
)

select * from divergence_tokens
