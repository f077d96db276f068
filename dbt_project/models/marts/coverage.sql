with units as (
    select * from {{ source('extract', 'units') }}
),

models as (
    select * from {{ source('extract', 'models') }}
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
    union
    select
        problem,
        model_id
    from units
),

counts as (
    select
        problem,
        model_id,
        condition,
        count(*) filter (where status = 'done') as documents_done,
        count(*) filter (where status = 'failed') as documents_failed,
        sum(rows) filter (where status = 'done') as tokens,
        sum(tokens_processed) as tokens_processed,
        sum(tokens_scored) as tokens_scored,
        sum(seconds) as seconds,
        max(peak_bytes) as peak_bytes,
        any_value(reason) filter (where status = 'failed') as failure
    from units
    group by problem, model_id, condition
),

coverage as (
    select
        known_models.problem,
        known_models.model_id,
        conditions.condition,
        conditions.condition_kind,
        coalesce(documents.documents, 0) as documents,
        coalesce(counts.documents_done, 0) as documents_done,
        coalesce(counts.documents_failed, 0) as documents_failed,
        greatest(
            coalesce(documents.documents, 0)
            - coalesce(counts.documents_done, 0)
            - coalesce(counts.documents_failed, 0),
            0
        ) as documents_missing,
        coalesce(counts.documents_done, 0) >= coalesce(documents.documents, 0) as complete,
        cast(coalesce(counts.tokens, 0) as bigint) as tokens,
        cast(coalesce(counts.tokens_processed, 0) as bigint) as tokens_processed,
        cast(coalesce(counts.tokens_scored, 0) as bigint) as tokens_scored,
        cast(coalesce(counts.seconds, 0) as double) as seconds,
        counts.peak_bytes,
        counts.failure
    from known_models
    inner join conditions using (problem)
    left join documents using (problem)
    left join counts using (problem, model_id, condition)
)

select * from coverage
