-- An entry is on a front when no other has at least its score for at most its cost, one of the two
-- strictly.

with entries as (
    select
        rankings.problem,
        rankings.round,
        rankings.entry,
        round(rankings.score, 12) as score,
        sum(costs.seconds) as seconds,
        cast(max(costs.peak_bytes) as bigint) as peak_bytes,
        cast(max(costs.checkpoint_bytes) as bigint) as checkpoint_bytes,
        bool_and(costs.within_limits) as within_limits
    from {{ ref('rankings') }} as rankings
    inner join {{ ref('merge_costs') }} as costs
        on rankings.problem = costs.problem
        and rankings.entry = costs.entry
        and (costs.stage = 'merge' or rankings.round in (costs.round, 'overall'))
    where rankings.score is not null
    group by rankings.problem, rankings.round, rankings.entry, rankings.score
)

select
    *,
    score = max(score) over (one_round order by seconds range unbounded preceding)
    and seconds = min(seconds) over equal_scores as on_time_front,
    score = max(score) over (one_round order by peak_bytes range unbounded preceding)
    and peak_bytes = min(peak_bytes) over equal_scores as on_space_front
from entries
window
    one_round as (partition by problem, round),
    equal_scores as (partition by problem, round, score)
