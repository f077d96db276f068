-- Pairs take time and memory of entries squared: a ranking of more than 1,000 entries has none.

with small_rankings as (
    select problem
    from {{ ref('int_ranking_values') }}
    group by problem
    having count(distinct entry) <= 1000
),

scores as (
    select * from {{ ref('int_ranking_scores') }}
    where score is not null and problem in (select one.problem from small_rankings as one)
),

round_units as (
    select * from {{ ref('int_ranking_units') }}
    where resampled = 'items' and problem in (select one.problem from small_rankings as one)
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

clusters as (
    select
        problem,
        round,
        task,
        cluster,
        metric,
        entry,
        sum(if(direction = 'higher', value, -value) * weight) as total
    from {{ ref('int_ranking_values') }}
    where (problem, round) in (select (one.problem, one.round) from round_units as one)
    group by problem, round, task, cluster, metric, entry
),

won as (
    select
        one.problem,
        one.round,
        one.entry,
        other.entry as other_entry,
        sign(sum(sign(one.total - other.total))) as sides
    from clusters as one
    inner join clusters as other
        on one.problem = other.problem
        and one.round = other.round
        and one.task = other.task
        and one.cluster = other.cluster
        and one.metric = other.metric
        and one.entry < other.entry
    group by
        one.problem, one.round, one.task, one.cluster, one.entry, other.entry
),

of_rounds as (
    select
        won.*,
        unnest(if(round_units.round_weight > 0, [won.round, 'overall'], [won.round])) as in_round
    from won
    inner join round_units using (problem, round)
),

counted as (
    select
        problem,
        in_round as round,
        entry,
        other_entry,
        count(*) as clusters,
        count(*) filter (where sides > 0) as wins,
        count(*) filter (where sides < 0) as losses
    from of_rounds
    group by problem, in_round, entry, other_entry
),

shares as (
    select
        problem,
        round,
        entry,
        other_entry,
        max(above) filter (where draw = 0) as measured_above,
        avg(above) filter (where draw > 0) as above_share,
        count(above) filter (where draw > 0) as draws
    from compared
    group by problem, round, entry, other_entry
    having count(*) filter (where draw = 0) > 0
)

select
    shares.*,
    counted.clusters,
    counted.wins,
    counted.losses
from shares
left join counted using (problem, round, entry, other_entry)
