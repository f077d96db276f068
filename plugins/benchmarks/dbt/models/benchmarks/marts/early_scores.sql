with stages as (
    select * from {{ ref('int_benchmark_stages') }}
),

tables as (
    select * from {{ ref('stg_benchmark_tables') }}
),

wanted as (
    select
        problem,
        unnest(string_split(predict_from, ',')) as predict_from
    from tables
),

wanted_stages as (
    select
        problem,
        case
            when try_cast(predict_from as double) is null then 'size' else 'share'
        end as kind,
        coalesce(
            format('{:g}', 100 * try_cast(predict_from as double)) || '%', predict_from
        ) as stage
    from wanted
),

subjects as (
    select distinct
        problem,
        kind,
        subject
    from stages
    where kind in ('share', 'size')
),

scored as (
    select stages.*
    from stages
    inner join wanted_stages
        on stages.problem = wanted_stages.problem
        and stages.kind = wanted_stages.kind
        and stages.stage = wanted_stages.stage
),

variants as (
    select distinct
        problem,
        kind,
        benchmark,
        metric,
        stage
    from scored
),

planned as (
    select * from {{ ref('int_planned_compute') }}
),

-- rankings that need no evaluation, next to those of evaluations: their baseline
without_evaluation as (
    select distinct
        subjects.problem,
        'no_evaluation' as metric,
        case
            when planned.size is null then planned.metric
            else concat(planned.metric, '@', planned.size)
        end as variant,
        subjects.subject as model_id,
        planned.value,
        cast(null as varchar) as reason
    from subjects
    inner join planned
        on subjects.problem = planned.problem
        and subjects.kind = planned.kind
        and subjects.subject = planned.subject
    inner join wanted_stages
        on planned.problem = wanted_stages.problem
        and planned.kind = wanted_stages.kind
        and (planned.size is null or planned.size = wanted_stages.stage)
    -- models of one size are not ranked by it
    qualify
        min(planned.value) over (partition by planned.problem, planned.size, planned.metric)
        < max(planned.value) over (partition by planned.problem, planned.size, planned.metric)
),

of_evaluations as (
    select
        variants.problem,
        variants.metric,
        concat(variants.benchmark, '@', variants.stage) as variant,
        subjects.subject as model_id,
        scored.score as value,
        case when scored.score is null then 'no_score' end as reason
    from variants
    inner join subjects
        on variants.problem = subjects.problem
        and variants.kind = subjects.kind
    left join scored
        on variants.problem = scored.problem
        and variants.kind = scored.kind
        and variants.benchmark = scored.benchmark
        and variants.metric = scored.metric
        and variants.stage = scored.stage
        and subjects.subject = scored.subject
),

every_score as (
    select * from of_evaluations
    union all by name
    select * from without_evaluation
)

select
    problem,
    metric,
    variant,
    model_id,
    value,
    cast(0 as bigint) as tokens,
    cast(0 as bigint) as documents,
    reason
from every_score
