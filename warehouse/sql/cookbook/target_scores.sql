-- The measured target: score per model and task, with its standard error
-- Items that share a context are not independent: the standard error is clustered by context.
-- param problem  -- which problem
with contexts as (
    select
        model_id,
        task,
        cluster,
        count(*) as items,
        avg(score) as score
    from downstream
    where problem = $problem
    group by model_id, task, cluster
)

select
    model_id,
    task,
    sum(items) as items,
    count(*) as contexts,
    avg(score) as score,
    stddev_samp(score) / sqrt(count(*)) as stderr
from contexts
group by model_id, task
order by task, score desc, model_id
