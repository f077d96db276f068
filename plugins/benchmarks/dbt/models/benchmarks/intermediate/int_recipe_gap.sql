-- How far runs on scientific data score above runs on web data early on: our formula for E2LM's
-- compliance with scientific knowledge, whose formula is not public.

with series as (
    select * from {{ ref('int_whole_series') }}
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
        oriented - (
            lag(oriented) over one_run + lead(oriented) over one_run
        ) / 2 as from_neighbours
    from series
    where early_checkpoint is not null and recipe in ('science', 'web')
    window one_run as (
        partition by problem, model_id, benchmark, metric
        order by checkpoint
    )
),

gaps as (
    select
        science.problem,
        science.benchmark,
        science.metric,
        science.shape,
        avg(science.oriented - web.oriented) as gap,
        -- 0 on a straight line; of independent noise, its variance is 3/2 that of the noise
        sqrt(avg(science.from_neighbours ** 2 + web.from_neighbours ** 2) / 3) as noise
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
