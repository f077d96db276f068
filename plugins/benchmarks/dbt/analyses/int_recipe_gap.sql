-- How far runs on scientific data score above runs on web data early on: our formula for E2LM's
-- compliance with scientific knowledge, whose formula is not public.

with series as (
    select * from {{ ref('int_benchmark_series') }}
),

early as (
    select
        problem,
        model_id,
        concat_ws(' ', size, architecture) as shape,
        recipe,
        benchmark,
        metric,
        progress,
        oriented,
        oriented - lag(oriented) over (
            partition by problem, model_id, benchmark, metric
            order by checkpoint
        ) as rise
    from series
    where early_checkpoint is not null and recipe in ('science', 'web')
),

gaps as (
    select
        science.problem,
        science.benchmark,
        science.metric,
        science.shape,
        avg(science.oriented - web.oriented) as gap,
        -- half the mean square of successive differences: the variance of what is not trend
        sqrt(avg((science.rise ** 2 + web.rise ** 2) / 4)) as noise
    from early as science
    inner join early as web using (problem, benchmark, metric, shape, progress)
    where science.recipe = 'science' and web.recipe = 'web'
    group by all
)

select
    problem,
    benchmark,
    metric,
    avg(greatest(gap, 0) / nullif(greatest(gap, 0) + noise, 0)) as cs
from gaps
group by problem, benchmark, metric
