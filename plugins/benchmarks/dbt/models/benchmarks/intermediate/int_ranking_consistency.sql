-- Whether later checkpoints rank the runs as early ones do: E2LM's ranking consistency, inferred
-- from one published figure. Two runs are compared at checkpoints that they share. Their early
-- scores, too, are those of early checkpoints that both have: otherwise a run without its first
-- checkpoints would have a higher mean. If their early windows end at different points (a share of
-- runs of different lengths), each has the early scores of its own window.

with series as (
    select * from {{ ref('int_whole_series') }}
),

runs as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        max(progress) filter (where early_checkpoint is not null) as early_end,
        avg(oriented) filter (where early_checkpoint is not null) as early_mean
    from series
    group by problem, model_id, benchmark, metric
),

placed as (
    select
        series.problem,
        series.model_id,
        series.benchmark,
        series.metric,
        series.window_end,
        series.progress,
        series.oriented,
        series.early_checkpoint is not null as is_early,
        coalesce(series.progress > runs.early_end, false) as is_later,
        runs.early_mean
    from series
    inner join runs using (problem, model_id, benchmark, metric)
),

shared as (
    select
        one.problem,
        one.benchmark,
        one.metric,
        one.model_id,
        other.model_id as other_id,
        one.progress,
        one.oriented,
        other.oriented as other_oriented,
        one.is_early and other.is_early as is_early,
        one.is_later and other.is_later as is_later,
        coalesce(one.window_end, -1) = coalesce(other.window_end, -1) as is_one_window,
        one.early_mean - other.early_mean as early_mean_lead
    from placed as one
    inner join placed as other
        on one.problem = other.problem
        and one.benchmark = other.benchmark
        and one.metric = other.metric
        and one.progress = other.progress
        and one.model_id < other.model_id
),

leads as (
    select
        problem,
        benchmark,
        metric,
        model_id,
        other_id,
        case
            when is_one_window then avg(oriented - other_oriented) filter (where is_early)
            else any_value(early_mean_lead)
        end as early_mean_lead
    from shared
    group by problem, benchmark, metric, model_id, other_id, is_one_window
),

pairs as (
    select
        shared.problem,
        shared.benchmark,
        shared.metric,
        shared.progress,
        -- beyond are the last bits of sums, which must not break ties
        (
            1
            + sign(shared.oriented - shared.other_oriented)
            * sign(round(leads.early_mean_lead, 10))
        ) / 2 as agreement
    from shared
    inner join leads using (problem, benchmark, metric, model_id, other_id)
    where shared.is_later
),

checkpoints as (
    select
        problem,
        benchmark,
        metric,
        progress,
        avg(agreement) as agreement
    from pairs
    group by problem, benchmark, metric, progress
)

select
    problem,
    benchmark,
    metric,
    count(*) as later_checkpoints,
    avg(agreement) as rc
from checkpoints
group by problem, benchmark, metric
