with scores as (
    select * from {{ ref('int_ranking_scores') }}
),

gaps as (
    select
        problem,
        round,
        entry,
        string_agg(concat(task_group, ' (', cause, ')'), '; ' order by task_group) as causes
    from {{ ref('int_ranking_gaps') }}
    group by problem, round, entry
),

round_gaps as (
    select
        problem,
        entry,
        string_agg(concat('round ', round, ' (', cause, ')'), ', ' order by round) as causes
    from {{ ref('int_ranking_round_gaps') }}
    group by problem, entry
),

draws as (
    select * from {{ ref('int_ranking_draws') }}
),

-- for an entry without a score there are no intervals: a draw may miss where it failed
drawn as (
    select
        drawn.problem,
        drawn.round,
        drawn.entry,
        count(drawn.score) as draws,
        quantile_disc(drawn.place, 0.025) as rank_low,
        quantile_disc(drawn.place, 0.975) as rank_high,
        quantile_cont(drawn.score, 0.025) as score_low,
        quantile_cont(drawn.score, 0.975) as score_high,
        avg(cast(drawn.place = 1 as integer)) as first_share
    from scores as drawn
    inner join scores as measured
        on drawn.problem = measured.problem
        and drawn.round = measured.round
        and drawn.entry = measured.entry
    where drawn.draw > 0 and measured.draw = 0 and measured.score is not null
    group by drawn.problem, drawn.round, drawn.entry
),

weighted_rounds as (
    select
        problem,
        round
    from scores
    where round_weight > 0
),

resampled as (
    select
        problem,
        round,
        any_value(resampled) as resampled
    from draws
    group by problem, round
    union all
    select
        draws.problem,
        'overall' as round,
        string_agg(distinct draws.resampled, ' and ' order by draws.resampled) as resampled
    from draws
    semi join weighted_rounds
        on draws.problem = weighted_rounds.problem
        and draws.round = weighted_rounds.round
    group by draws.problem
),

rankings as (
    select
        scores.problem,
        scores.round,
        scores.entry,
        scores.round_weight,
        scores.task_groups,
        scores.product_of_groups as product,
        scores.geometric_mean,
        scores.score,
        scores.place as rank,  -- noqa: RF04
        scores.product_place as product_rank,
        drawn.rank_low,
        drawn.rank_high,
        drawn.score_low,
        drawn.score_high,
        drawn.first_share,
        coalesce(drawn.draws, 0) as draws,
        resampled.resampled,
        case
            when scores.score is not null then null
            when scores.round = 'overall'
                then concat('no score in ', round_gaps.causes)
            else concat(
                    'no win rate in ',
                    scores.missing_groups,
                    ' of ',
                    scores.task_groups,
                    ' groups: ',
                    gaps.causes
                )
        end as reason
    from scores
    left join drawn
        on scores.problem = drawn.problem
        and scores.round = drawn.round
        and scores.entry = drawn.entry
    left join gaps
        on scores.problem = gaps.problem
        and scores.round = gaps.round
        and scores.entry = gaps.entry
    left join round_gaps
        on scores.problem = round_gaps.problem
        and scores.entry = round_gaps.entry
    left join resampled
        on scores.problem = resampled.problem
        and scores.round = resampled.round
    where scores.draw = 0
)

select * from rankings
