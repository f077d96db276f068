with items as (
    select * from {{ source('evals', 'eval_items') }}
),

units as (
    select * from {{ source('evals', 'eval_units') }}
),

asked as (
    select
        problem,
        condition,
        doc_id,
        any_value(task) as task,
        any_value(shots) as shots,
        any_value(unit_sha256) as unit_sha256
    from items
    group by problem, condition, doc_id
),

begun as (
    select distinct
        problem,
        model_id,
        condition
    from units
),

matched as (
    select
        begun.problem,
        begun.model_id,
        begun.condition,
        asked.task,
        asked.shots,
        units.rows,
        units.tokens_processed,
        units.seconds,
        units.peak_bytes,
        units.reason,
        case
            when units.document_sha256 is null then 'missing'
            when units.document_sha256 != asked.unit_sha256 then 'outdated'
            else units.status
        end as state
    from begun
    inner join asked using (problem, condition)
    left join units using (problem, model_id, condition, doc_id)
),

eval_coverage as (
    select
        problem,
        model_id,
        condition,
        any_value(task) as task,
        any_value(shots) as shots,
        count(*) as units,
        count(*) filter (where state = 'done') as units_done,
        count(*) filter (where state = 'failed') as units_failed,
        count(*) filter (where state = 'outdated') as units_outdated,
        count(*) filter (where state = 'missing') as units_missing,
        bool_and(state = 'done') as is_complete,
        cast(coalesce(sum(rows) filter (where state = 'done'), 0) as bigint) as tokens,
        cast(coalesce(sum(tokens_processed), 0) as bigint) as tokens_processed,
        cast(coalesce(sum(seconds), 0) as double) as seconds,
        max(peak_bytes) as peak_bytes,
        any_value(reason) filter (where state = 'failed') as failure
    from matched
    group by problem, model_id, condition
)

select * from eval_coverage
