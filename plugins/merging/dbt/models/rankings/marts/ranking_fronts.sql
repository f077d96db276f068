-- An entry is on a front when no other has at least its score for at most its cost, one of the two
-- strictly.

with costs as (
    select * from {{ ref('merge_costs') }}
),

rankings as (
    select * from {{ ref('rankings') }}
    where score is not null
),

entries as (
    select
        rankings.problem,
        rankings.round,
        rankings.entry,
        round(rankings.score, 12) as score,
        sum(costs.seconds) as seconds,
        max(costs.peak_bytes) as peak_bytes,
        max(costs.checkpoint_bytes) as checkpoint_bytes,
        bool_and(costs.within_limits) as within_limits
    from rankings
    inner join costs
        on rankings.problem = costs.problem
        and rankings.entry = costs.entry
        and (costs.stage = 'merge' or rankings.round = costs.round or rankings.round = 'overall')
    group by rankings.problem, rankings.round, rankings.entry, rankings.score
),

compared as (
    select
        mine.problem,
        mine.round,
        mine.entry,
        bool_or(
            other.score >= mine.score and other.seconds <= mine.seconds
            and (other.score > mine.score or other.seconds < mine.seconds)
        ) as time_beaten,
        bool_or(
            other.score >= mine.score and other.peak_bytes <= mine.peak_bytes
            and (other.score > mine.score or other.peak_bytes < mine.peak_bytes)
        ) as space_beaten
    from entries as mine
    inner join entries as other
        on mine.problem = other.problem
        and mine.round = other.round
    group by mine.problem, mine.round, mine.entry
),

ranking_fronts as (
    select
        entries.problem,
        entries.round,
        entries.entry,
        entries.score,
        entries.seconds,
        cast(entries.peak_bytes as bigint) as peak_bytes,
        cast(entries.checkpoint_bytes as bigint) as checkpoint_bytes,
        entries.within_limits,
        not compared.time_beaten as on_time_front,
        not compared.space_beaten as on_space_front
    from entries
    inner join compared
        on entries.problem = compared.problem
        and entries.round = compared.round
        and entries.entry = compared.entry
)

select * from ranking_fronts
