select
    problem,
    round,
    task_group,
    entry,
    mean_win_rate,
    if(
        mean_win_rate is null,
        null,
        rank() over (
            partition by problem, round, task_group
            order by round(mean_win_rate, 12) desc nulls last
        )
    ) as rank  -- noqa: RF04
from {{ ref('int_ranking_groups') }}
where draw = 0
