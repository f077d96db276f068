-- The score of a round is the geometric mean; that of all rounds together is the weighted mean of
-- theirs. An entry without a win rate in one of the groups has no score, and one without a score in
-- one of the rounds with a weight has no overall score.

with ranking_groups as (
    select * from {{ ref('int_ranking_groups') }}
),

columns_of_rankings as (
    select * from {{ ref('stg_ranking_columns') }}
),

weights as (
    select
        problem,
        round,
        any_value(round_weight) as round_weight
    from columns_of_rankings
    group by problem, round
),

-- a draw may leave out a group of tasks that an entry has failed in
rounds as (
    select
        problem,
        draw,
        round,
        entry,
        sum(times) as task_groups,
        coalesce(sum(times) filter (where mean_win_rate is null), 0) as missing_groups,
        product(pow(mean_win_rate, times)) as product_of_groups,
        if(
            min(mean_win_rate) = 0,
            0,
            exp(sum(times * ln(nullif(mean_win_rate, 0))) / sum(times))
        ) as geometric_mean
    from ranking_groups
    group by problem, draw, round, entry
),

whole_rounds as (
    select
        rounds.problem,
        rounds.draw,
        rounds.round,
        rounds.entry,
        weights.round_weight,
        rounds.task_groups,
        rounds.missing_groups,
        if(rounds.missing_groups = 0, rounds.product_of_groups, null) as product_of_groups,
        if(rounds.missing_groups = 0, rounds.geometric_mean, null) as geometric_mean
    from rounds
    inner join weights
        on rounds.problem = weights.problem
        and rounds.round = weights.round
),

weighted as (
    select * from whole_rounds
    where round_weight > 0
),

rounds_of_problems as (
    select
        problem,
        count(*) as rounds,
        sum(round_weight) as total_weight
    from weights
    where round_weight > 0
    group by problem
    having count(*) > 1
),

overall as (
    select
        weighted.problem,
        weighted.draw,
        'overall' as round,
        weighted.entry,
        sum(weighted.task_groups) as task_groups,
        sum(weighted.missing_groups) as missing_groups,
        product(weighted.product_of_groups) as product_of_groups,
        if(
            min(weighted.geometric_mean) = 0,
            0,
            exp(
                sum(weighted.task_groups * ln(nullif(weighted.geometric_mean, 0)))
                / sum(weighted.task_groups)
            )
        ) as geometric_mean,
        sum(weighted.geometric_mean * weighted.round_weight)
        / any_value(rounds_of_problems.total_weight) as score
    from weighted
    inner join rounds_of_problems
        on weighted.problem = rounds_of_problems.problem
    group by weighted.problem, weighted.draw, weighted.entry
    having count(weighted.geometric_mean) = any_value(rounds_of_problems.rounds)
),

measured_overall as (
    select * from overall
    where draw = 0
),

ranked_problems as (
    select distinct problem from measured_overall
),

-- if any entry has an overall score, the others are listed without one
unranked as (
    select distinct
        whole_rounds.problem,
        whole_rounds.draw,
        'overall' as round,
        whole_rounds.entry
    from whole_rounds
    semi join ranked_problems
        on whole_rounds.problem = ranked_problems.problem
    anti join measured_overall
        on whole_rounds.problem = measured_overall.problem
        and whole_rounds.entry = measured_overall.entry
    where whole_rounds.draw = 0
),

together as (
    select
        *,
        geometric_mean as score
    from whole_rounds
    union all by name
    select * from overall
    union all by name
    select * from unranked
),

ranked as (
    select
        problem,
        draw,
        round,
        entry,
        round_weight,
        cast(task_groups as integer) as task_groups,
        cast(missing_groups as integer) as missing_groups,
        product_of_groups,
        geometric_mean,
        score,
        -- beyond are the last bits of products, which must not break ties
        if(
            score is null,
            null,
            rank() over (
                partition by problem, draw, round order by round(score, 12) desc nulls last
            )
        ) as place,
        if(
            product_of_groups is null,
            null,
            rank() over (
                partition by problem, draw, round
                order by round(product_of_groups, 15) desc nulls last
            )
        ) as product_place
    from together
)

select * from ranked
