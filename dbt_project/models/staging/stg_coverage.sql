with units as (
    select * from {{ source('extract', 'units') }}
    where is_needed
),

models as (
    select * from {{ source('extract', 'models') }}
),

needed as (
    select * from {{ source('extract', 'needed') }}
),

documents as (
    select
        problem,
        count(*) as documents
    from {{ source('extract', 'documents') }}
    group by problem
),

conditions as (
    select distinct
        problem,
        condition,
        condition_kind
    from units
),

known_models as (
    select
        problem,
        model_id
    from models
    where problem not in (select needed.problem from needed)
        or (problem, model_id) in (select (needed.problem, needed.model_id) from needed)
    union
    select
        problem,
        model_id
    from units
),

stg_coverage as (
    select
        known_models.problem,
        known_models.model_id,
        conditions.condition,
        conditions.condition_kind,
        coalesce(any_value(documents.documents), 0) as documents,
        count(*) filter (where units.status = 'done') as documents_done,
        count(*) filter (where units.status = 'failed') as documents_failed,
        greatest(
            coalesce(any_value(documents.documents), 0) - documents_done - documents_failed, 0
        ) as documents_missing,
        documents_done >= coalesce(any_value(documents.documents), 0) as is_complete,
        cast(coalesce(sum(units.rows) filter (where units.status = 'done'), 0) as bigint)
            as tokens,
        cast(coalesce(sum(units.tokens_processed), 0) as bigint) as tokens_processed,
        cast(coalesce(sum(units.tokens_scored), 0) as bigint) as tokens_scored,
        coalesce(sum(units.seconds), 0) as seconds,
        max(units.peak_bytes) as peak_bytes,
        any_value(units.reason) filter (where units.status = 'failed') as failure
    from known_models
    inner join conditions using (problem)
    left join documents using (problem)
    left join units using (problem, model_id, condition)
    group by
        known_models.problem,
        known_models.model_id,
        conditions.condition,
        conditions.condition_kind
)

select * from stg_coverage
