-- Earliest checkpoint from which the ranking no longer changes: tokens, where all share
-- checkpoints, and share of training. The last checkpoint always ranks the runs as itself: if the
-- ranking changes up to it, there is no such number of tokens.

with series as (
    select * from {{ ref('int_benchmark_series') }}
),

decisions as (
    select * from {{ ref('int_benchmark_decisions') }}
),

last_scores as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        max(progress) as last_progress,
        arg_max(oriented, checkpoint) as last_score
    from series
    group by problem, model_id, benchmark, metric
),

runs as (
    select
        problem,
        benchmark,
        metric,
        count(*) as runs
    from last_scores
    group by problem, benchmark, metric
    having count(*) > 1 and min(last_progress) = max(last_progress)
),

ranked as (
    select
        series.problem,
        series.benchmark,
        series.metric,
        series.progress,
        series.tokens,
        series.model_id,
        rank() over (
            partition by series.problem, series.benchmark, series.metric, series.progress
            order by series.oriented
        ) as place,
        rank() over (
            partition by series.problem, series.benchmark, series.metric, series.progress
            order by last_scores.last_score
        ) as last_place
    from series
    inner join last_scores
        on series.problem = last_scores.problem
        and series.model_id = last_scores.model_id
        and series.benchmark = last_scores.benchmark
        and series.metric = last_scores.metric
),

shared as (
    select
        ranked.problem,
        ranked.benchmark,
        ranked.metric,
        ranked.progress as point,
        bool_and(ranked.place = ranked.last_place) as is_final,
        bool_and(ranked.tokens is not null) as has_unit,
        'earliest_tokens' as statistic
    from ranked
    inner join runs
        on ranked.problem = runs.problem
        and ranked.benchmark = runs.benchmark
        and ranked.metric = runs.metric
    group by ranked.problem, ranked.benchmark, ranked.metric, ranked.progress, runs.runs
    having count(*) = runs.runs
),

by_share as (
    select
        problem,
        benchmark,
        metric,
        position as point,
        unnest([agreement = 1, agreement >= 0.95]) as is_final,
        true as has_unit,
        unnest(['earliest_share', 'earliest_share_95']) as statistic
    from decisions
    where kind = 'share' and metric = later_metric
),

points as (
    select * from shared
    union all by name
    select * from by_share
),

changes as (
    select
        *,
        coalesce(
            max(case when not is_final then point end) over (
                partition by problem, benchmark, metric, statistic
            ),
            -1
        ) as last_change
    from points
),

earliest as (
    select
        problem,
        benchmark,
        metric,
        statistic,
        min(point) filter (where point > last_change) as point,
        max(point) as last_point,
        count(*) as points,
        bool_and(has_unit) as has_unit
    from changes
    group by problem, benchmark, metric, statistic
),

stated as (
    select
        problem,
        benchmark,
        metric,
        statistic,
        point,
        case
            when not has_unit then 'no_tokens'
            when statistic = 'earliest_tokens' and points = 1
                then 'one_shared_checkpoint'
            when statistic = 'earliest_tokens' and point = last_point
                then 'still_changes'
        end as reason
    from earliest
)

select
    problem,
    benchmark,
    metric,
    statistic,
    case when reason is null then point end as value,
    reason
from stated
