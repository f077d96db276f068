-- How much the score of a run that has nearly finished still moves.

with series as (
    select * from {{ ref('int_benchmark_series') }}
),

steps as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        checkpoint,
        checkpoints,
        score,
        stderr,
        oriented,
        oriented - lag(oriented) over (
            partition by problem, model_id, benchmark, metric
            order by checkpoint
        ) as rise
    from series
)

select
    problem,
    model_id,
    benchmark,
    metric,
    any_value(checkpoints) as checkpoints,
    10 as wanted_checkpoints,
    arg_max(score, checkpoint) as final_score,
    avg(abs(rise)) as total_variation,
    avg(sign(rise)) as rise_balance,
    stddev_pop(score) filter (
        where checkpoint >= checkpoints - 10
    ) as noise_sd,
    avg(score) filter (
        where checkpoint >= checkpoints - 10
    ) as last_mean,
    avg(stderr) filter (
        where checkpoint >= checkpoints - 10
    ) as sampling_error
from steps
group by problem, model_id, benchmark, metric
