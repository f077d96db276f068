{{ config(materialized = 'view') }}

with oriented as (
    select
        *,
        if(direction = 'higher', score, -score) as oriented_score
    from {{ ref('int_ranking_columns') }}
    where score is not null and isfinite(score)
),

wins as (
    select
        *,
        rank() over (one_column order by oriented_score) - 1 as strictly_worse,
        count(*) over (
            partition by problem, draw, round, task, metric, oriented_score
        ) as equal_scores,
        count(*) over one_column as scores_found
    from oriented
    window one_column as (partition by problem, draw, round, task, metric)
)

select
    problem,
    draw,
    round,
    task_group,
    task,
    metric,
    entry,
    (strictly_worse + (equal_scores - 1) / 2) / (scores_found - 1) as win_rate
from wins
where scores_found > 1
