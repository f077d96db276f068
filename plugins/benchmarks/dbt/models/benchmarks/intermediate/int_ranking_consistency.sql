-- Whether later checkpoints rank the runs as early ones do: E2LM's ranking consistency, inferred
-- from one published figure. Runs are compared at checkpoints that they share.

with series as (
    select * from {{ ref('int_benchmark_series') }}
),

runs as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        max(progress) filter (where early_checkpoint is not null) as early_end,
        -- beyond are the last bits of sums, which must not break ties
        round(avg(oriented) filter (where early_checkpoint is not null), 10) as early_mean,
        arg_max(oriented, checkpoint) filter (where early_checkpoint is not null) as early_last,
        arg_max(oriented, checkpoint) as last_score,
        max(progress) as last_progress
    from series
    group by problem, model_id, benchmark, metric
),

later as (
    select
        series.problem,
        series.model_id,
        series.benchmark,
        series.metric,
        series.progress,
        series.oriented,
        runs.early_mean,
        runs.early_last,
        runs.last_score,
        runs.last_progress
    from series
    inner join runs
        on series.problem = runs.problem
        and series.model_id = runs.model_id
        and series.benchmark = runs.benchmark
        and series.metric = runs.metric
    where series.progress > runs.early_end
),

pairs as (
    select
        one.problem,
        one.benchmark,
        one.metric,
        one.progress,
        one.progress = greatest(one.last_progress, other.last_progress) as is_last,
        (1 + sign(one.oriented - other.oriented) * sign(one.early_mean - other.early_mean))
        / 2 as with_early_mean,
        (1 + sign(one.oriented - other.oriented) * sign(one.early_last - other.early_last))
        / 2 as with_early_last,
        (1 + sign(one.oriented - other.oriented) * sign(one.last_score - other.last_score))
        / 2 as with_last
    from later as one
    inner join later as other
        on one.problem = other.problem
        and one.benchmark = other.benchmark
        and one.metric = other.metric
        and one.progress = other.progress
        and one.model_id < other.model_id
),

checkpoints as (
    select
        problem,
        benchmark,
        metric,
        progress,
        avg(with_early_mean) as with_early_mean,
        avg(with_early_last) as with_early_last,
        -- the last checkpoint agrees with itself
        avg(with_last) filter (where not is_last) as with_last
    from pairs
    group by problem, benchmark, metric, progress
)

select
    problem,
    benchmark,
    metric,
    count(*) as later_checkpoints,
    avg(with_early_mean) as rc,
    avg(with_early_last) as rc_last_early,
    avg(with_last) as rc_last
from checkpoints
group by problem, benchmark, metric
