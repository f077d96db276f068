-- How much the score of a run that has nearly finished still moves.

with series as (
    select * from {{ ref('int_whole_series') }}
)

select
    problem,
    model_id,
    benchmark,
    metric,
    any_value(checkpoints) as checkpoints,
    arg_max(score, checkpoint) as final_score,
    stddev_pop(score) filter (where checkpoint >= checkpoints - 10) as noise_sd,
    avg(score) filter (where checkpoint >= checkpoints - 10) as last_mean,
    avg(stderr) filter (where checkpoint >= checkpoints - 10) as sampling_error
from series
group by problem, model_id, benchmark, metric
