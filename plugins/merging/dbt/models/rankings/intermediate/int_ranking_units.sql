-- From 6 units on, a pair whose order is the same in all of them has an exact two-sided p below 5%
-- (2 / 2^6): with fewer, neither an interval nor a verdict exists.

with tasks as (
    select
        problem,
        round,
        task,
        any_value(round_weight) as round_weight,
        any_value(task_group) as task_group,
        count(distinct cluster) as clusters
    from {{ ref('int_ranking_values') }}
    group by problem, round, task
)

select
    problem,
    round,
    any_value(round_weight) as round_weight,
    if(min(clusters) >= 6, 'items', 'tasks') as resampled,
    if(min(clusters) >= 6, min(clusters), count(distinct task_group)) as units
from tasks
group by problem, round
