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

pairs as (
    select
        one.problem,
        one.round,
        other.round as other_round,
        one.entry,
        one.draw,
        one.place,
        one.score,
        other.score as other_score
    from scores as one
    inner join scores as other
        on one.problem = other.problem
        and one.draw = other.draw
        and one.entry = other.entry
        and one.round != other.round
),

drops as (
    select
        problem,
        round,
        other_round,
        entry,
        max(place) filter (where draw = 0) as place,
        max(score) filter (where draw = 0) as score,
        max(other_score) filter (where draw = 0) as other_score,
        max(score - other_score) filter (where draw = 0) as drop,
        quantile_cont(score - other_score, 0.025) filter (where draw > 0) as drop_low,
        quantile_cont(score - other_score, 0.975) filter (where draw > 0) as drop_high
    from pairs
    group by problem, round, other_round, entry
    having count(*) filter (where draw = 0) > 0
)

select
    drops.problem,
    drops.round,
    drops.other_round,
    drops.entry,
    entries.entries,
    drops.place as rank,  -- noqa: RF04
    drops.score,
    drops.other_score,
    drops.drop,  -- noqa: RF04
    drops.drop_low,
    drops.drop_high
from drops
inner join entries
    on drops.problem = entries.problem
    and drops.round = entries.round
