-- From each round to each other one: how much an entry's score falls. What was tuned on a round
-- falls elsewhere; the first of many entries falls in any case.

with scores as (
    select * from {{ ref('int_ranking_scores') }}
    where score is not null and round != 'overall'
),

entries as (
    select
        problem,
        round,
        count(*) as entries
    from scores
    where draw = 0
    group by problem, round
),

drops as (
    select
        one.problem,
        one.round,
        other.round as other_round,
        one.entry,
        max(one.place) filter (where one.draw = 0) as rank,  -- noqa: RF04
        max(one.score) filter (where one.draw = 0) as score,
        max(other.score) filter (where one.draw = 0) as other_score,
        max(one.score - other.score) filter (where one.draw = 0) as drop,  -- noqa: RF04
        quantile_cont(one.score - other.score, 0.025) filter (where one.draw > 0) as drop_low,
        quantile_cont(one.score - other.score, 0.975) filter (where one.draw > 0) as drop_high
    from scores as one
    inner join scores as other
        on one.problem = other.problem
        and one.draw = other.draw
        and one.entry = other.entry
        and one.round != other.round
    group by one.problem, one.round, other.round, one.entry
    having count(*) filter (where one.draw = 0) > 0
)

select
    drops.*,
    entries.entries
from drops
inner join entries using (problem, round)
