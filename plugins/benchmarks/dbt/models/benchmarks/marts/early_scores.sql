with stages as (
    select * from {{ ref('int_benchmark_stages') }}
),

tables as (
    select * from {{ source('benchmarks', 'benchmark_tables') }}
),

wanted as (
    select
        problem,
        unnest(from_json(predict_from, '["JSON"]')) as predicting
    from tables
),

wanted_stages as (
    select
        problem,
        case json_type(predicting) when 'VARCHAR' then 'size' else 'share' end as kind,
        case json_type(predicting)
            when 'VARCHAR' then predicting ->> '$'
            else format('{:g}', 100 * cast(predicting as double)) || '%'
        end as stage
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
    inner join wanted_stages using (problem, kind, stage)
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
    inner join planned using (problem, kind, subject)
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
    inner join subjects using (problem, kind)
    left join scored using (problem, kind, benchmark, metric, stage, subject)
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
