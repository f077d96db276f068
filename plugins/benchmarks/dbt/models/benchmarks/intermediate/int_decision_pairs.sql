{{ config(materialized = 'view') }}

-- Every decision between two runs (or recipes): does an early stage order them as a later one does?

with stages as (
    select * from {{ ref('int_benchmark_stages') }}
),

tables as (
    select * from {{ source('benchmarks', 'benchmark_tables') }}
),

positions as (
    select
        problem,
        kind,
        stage,
        avg(position) as position
    from stages
    group by problem, kind, stage
),

placed as (
    select
        stages.problem,
        stages.subject,
        stages.benchmark,
        stages.metric,
        stages.kind,
        stages.stage,
        stages.oriented,
        positions.position,
        tables.target_metric
    from stages
    inner join positions using (problem, kind, stage)
    inner join tables using (problem)
    where stages.oriented is not null
),

moves as (
    select
        sooner.problem,
        sooner.subject,
        sooner.benchmark,
        sooner.metric,
        sooner.kind,
        sooner.stage,
        sooner.position,
        later.metric as later_metric,
        later.stage as later_stage,
        later.position as later_position,
        sooner.oriented,
        later.oriented as later_oriented
    from placed as sooner
    inner join placed as later
        on sooner.problem = later.problem
        and sooner.subject = later.subject
        and sooner.benchmark = later.benchmark
        and sooner.kind = later.kind
        and sooner.position < later.position
    where
        (later.stage = 'final' or later.kind = 'size')
        and (later.metric = sooner.metric or later.metric = sooner.target_metric)
)

select
    one.problem,
    one.benchmark,
    one.metric,
    one.kind,
    one.stage,
    one.position,
    one.later_metric,
    one.later_stage,
    one.later_position,
    one.subject,
    other.subject as other_subject,
    -- 1 for the same order, 0 for the opposite one; a tie at either stage is half of each
    (
        1
        + sign(one.oriented - other.oriented)
        * sign(one.later_oriented - other.later_oriented)
    ) / 2 as agreement,
    sign(one.later_oriented - other.later_oriented) as later_order
from moves as one
inner join moves as other
    on one.problem = other.problem
    and one.benchmark = other.benchmark
    and one.metric = other.metric
    and one.kind = other.kind
    and one.stage = other.stage
    and one.later_metric = other.later_metric
    and one.later_stage = other.later_stage
    and one.subject < other.subject
