with scores as (
    select * from {{ ref('int_ranking_scores') }}
    where score is not null
),

compared as (
    select
        one.problem,
        one.round,
        one.entry,
        other.entry as other_entry,
        one.draw,
        (1 + sign(round(one.score, 12) - round(other.score, 12))) / 2 as above
    from scores as one
    inner join scores as other
        on one.problem = other.problem
        and one.round = other.round
        and one.draw = other.draw
        and one.entry < other.entry
),

ranking_pairs as (
    select
        problem,
        round,
        entry,
        other_entry,
        max(above) filter (where draw = 0) as measured_above,
        avg(above) filter (where draw > 0) as above_share
    from compared
    group by problem, round, entry, other_entry
    having max(draw) filter (where draw = 0) = 0
)

select * from ranking_pairs
