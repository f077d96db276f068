with scores as (
    select * from {{ ref('int_ranking_scores') }}
),

round_units as (
    select
        problem,
        round,
        resampled,
        units
    from {{ ref('int_ranking_units') }}
    union all
    select
        problem,
        'overall' as round,
        string_agg(distinct resampled, ' and ' order by resampled) as resampled,
        if(bool_and(resampled = 'items'), min(units), sum(units)) as units
    from {{ ref('int_ranking_units') }}
    where round_weight > 0
    group by problem
),

-- for an entry without a score there are no intervals: a draw may miss where it failed
drawn as (
    select
        problem,
        round,
        entry,
        count(score) as draws,
        quantile_cont(score, 0.025) as score_low,
        quantile_cont(score, 0.975) as score_high,
        avg(cast(place = 1 as integer)) as first_share
    from scores
    where draw > 0
    group by problem, round, entry
    having count(*) filter (where score is null) = 0
),

gaps as (
    select
        problem,
        round,
        entry,
        list(task_group order by task_group) as missing
    from {{ ref('int_ranking_groups') }}
    where draw = 0 and mean_win_rate is null
    group by problem, round, entry
    union all
    select
        entries.problem,
        'overall' as round,
        entries.entry,
        list(rounds.round order by rounds.round) as missing
    from scores as entries
    inner join {{ ref('int_ranking_units') }} as rounds
        on entries.problem = rounds.problem
    left join scores as found
        on rounds.problem = found.problem
        and rounds.round = found.round
        and entries.entry = found.entry
        and found.draw = 0
    where entries.round = 'overall' and entries.draw = 0
        and rounds.round_weight > 0 and found.score is null
    group by entries.problem, entries.entry
)

select
    problem,
    round,
    entry,
    scores.round_weight,
    scores.task_groups,
    scores.mean_win_rate,
    scores.score,
    scores.place as rank,  -- noqa: RF04
    if(
        scores.product_of_groups is null,
        null,
        rank() over (
            partition by problem, round order by round(scores.product_of_groups, 15) desc nulls last
        )
    ) as product_rank,
    if(scores.score is null, null, drawn.score_low) as score_low,
    if(scores.score is null, null, drawn.score_high) as score_high,
    if(
        scores.score is null or round_units.resampled != 'items', null, drawn.first_share
    ) as first_share,
    coalesce(if(scores.score is null, null, drawn.draws), 0) as draws,
    round_units.resampled,
    cast(round_units.units as integer) as units,
    gaps.missing
from scores
inner join round_units using (problem, round)
left join drawn using (problem, round, entry)
left join gaps using (problem, round, entry)
where scores.draw = 0
