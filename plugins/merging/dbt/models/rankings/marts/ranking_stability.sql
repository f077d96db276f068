with scores as (
    select
        problem,
        draw,
        round,
        entry,
        round(score, 12) as score
    from {{ ref('int_ranking_scores') }}
    where score is not null and round != 'overall'
),

pairs as (
    select
        one.problem,
        one.round,
        other.round as other_round,
        one.draw,
        one.score,
        other.score as other_score
    from scores as one
    inner join scores as other
        on one.problem = other.problem
        and one.draw = other.draw
        and one.entry = other.entry
        and one.round < other.round
),

ranked as (
    select
        *,
        rank() over (one_pair order by score)
        + (count(*) over (partition by problem, round, other_round, draw, score) - 1) / 2
            as average_rank,
        rank() over (one_pair order by other_score)
        + (count(*) over (partition by problem, round, other_round, draw, other_score) - 1) / 2
            as other_average_rank
    from pairs
    window one_pair as (partition by problem, round, other_round, draw)
),

correlations as (
    select
        problem,
        round,
        other_round,
        draw,
        count(*) as entries,
        -- with four entries even the same order has an exact p of 2 / 4!
        if(
            count(*) >= 5 and count(distinct score) > 1 and count(distinct other_score) > 1,
            round(corr(average_rank, other_average_rank), 12),
            null
        ) as spearman
    from ranked
    group by problem, round, other_round, draw
)

select
    problem,
    round,
    other_round,
    max(entries) filter (where draw = 0) as entries,
    max(spearman) filter (where draw = 0) as spearman,
    quantile_cont(spearman, 0.025) filter (where draw > 0) as spearman_low,
    quantile_cont(spearman, 0.975) filter (where draw > 0) as spearman_high
from correlations
group by problem, round, other_round
having max(entries) filter (where draw = 0) > 1
