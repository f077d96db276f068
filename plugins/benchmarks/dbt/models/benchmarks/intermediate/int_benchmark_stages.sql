-- Scores at the stages that decisions are taken at: shares of a run's training, the end of its
-- early window, and, where recipes were trained at several sizes, the sizes.

with series as (
    select * from {{ ref('int_benchmark_series') }}
),

tables as (
    select * from {{ source('benchmarks', 'benchmark_tables') }}
),

shares as (
    select
        problem,
        cast(unnest(range(5, 100, 5)) / 100 as double) as share
    from tables
    union
    select
        problem,
        try_cast(predicting as double) as share
    from (
        select
            problem,
            unnest(from_json(predict_from, '["JSON"]')) as predicting
        from tables
    ) as predictors
    where json_type(predicting) = 'DOUBLE'
),

runs as (
    select
        *,
        -- sizes are ordered by it; steps of different batch sizes are not comparable
        coalesce(parameters, 1) * coalesce(tokens, 1) as compute,
        -- a benchmark may stop before the run does
        checkpoint = checkpoints - 1 and coalesce(share, 1) = 1 as is_last,
        max(share) over (partition by problem, model_id, benchmark, metric) as last_share
    from series
),

at_shares as (
    select
        runs.problem,
        runs.model_id as subject,
        runs.benchmark,
        runs.metric,
        'share' as kind,
        concat(format('{:g}', 100 * shares.share), '%') as stage,
        shares.share as position,
        arg_max(runs.oriented, runs.checkpoint) as oriented,
        arg_max(runs.score, runs.checkpoint) as score
    from runs
    inner join shares using (problem)
    -- 1e-9: a share of 0.3 and tokens of 0.3 of the last differ in their last bits
    where
        runs.share <= shares.share + 1e-9
        and shares.share <= runs.last_share + 1e-9
        and runs.checkpoints > 1
    group by all
),

at_early_end as (
    select
        problem,
        model_id as subject,
        benchmark,
        metric,
        'early' as kind,
        'early' as stage,
        0.0 as position,
        arg_max(oriented, checkpoint) as oriented,
        arg_max(score, checkpoint) as score
    from runs
    where early_checkpoint is not null
    group by problem, model_id, benchmark, metric, checkpoints
    having max(checkpoint) < checkpoints - 1
),

at_end as (
    select
        problem,
        model_id as subject,
        benchmark,
        metric,
        unnest(['share', 'early']) as kind,
        'final' as stage,
        1.0 as position,
        oriented,
        score
    from runs
    where is_last and checkpoints > 1
),

at_sizes as (
    select
        problem,
        replace(recipe, '/', '--') as subject,
        benchmark,
        metric,
        'size' as kind,
        size as stage,
        avg(compute) as position,
        -- beyond are the last bits of sums, which must not break ties
        round(avg(oriented), 10) as oriented,
        avg(score) as score
    from runs
    where is_last and recipe is not null and size is not null
    group by problem, recipe, benchmark, metric, size
)

select * from at_shares
union all by name
select * from at_early_end
union all by name
select * from at_end
union all by name
select * from at_sizes
