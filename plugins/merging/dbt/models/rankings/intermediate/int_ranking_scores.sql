-- The score of a round is the geometric mean; that of all rounds together is the weighted mean of
-- theirs. An entry without a win rate in one of the groups has no score, and one without a score in
-- one of the rounds with a weight has no overall score.

with round_units as (
    select * from {{ ref('int_ranking_units') }}
),

-- a draw may leave out a group of tasks that an entry has failed in
sums as (
    select
        problem,
        draw,
        round,
        entry,
        sum(times) as task_groups,
        count(*) = count(mean_win_rate) as is_whole,
        sum(times * mean_win_rate) as sum_of_rates,
        product(pow(mean_win_rate, times)) as product_of_groups,
        -- of a rate of 0 it is -infinity, whose exponential is 0
        sum(times * if(mean_win_rate = 0, '-inf', ln(nullif(mean_win_rate, 0)))) as sum_of_logs
    from {{ ref('int_ranking_groups') }}
    group by problem, draw, round, entry
),

rounds as (
    select
        sums.problem,
        sums.draw,
        sums.round,
        sums.entry,
        round_units.round_weight,
        cast(sums.task_groups as integer) as task_groups,
        if(sums.is_whole, sums.sum_of_rates, null) as sum_of_rates,
        if(sums.is_whole, sums.product_of_groups, null) as product_of_groups,
        if(sums.is_whole, exp(sums.sum_of_logs / sums.task_groups), null) as score
    from sums
    inner join round_units using (problem, round)
),

weighted_rounds as (
    select
        problem,
        count(*) as rounds,
        sum(round_weight) as total_weight
    from round_units
    where round_weight > 0
    group by problem
    having count(*) > 1
),

overall as (
    select
        rounds.problem,
        rounds.draw,
        'overall' as round,
        rounds.entry,
        cast(sum(rounds.task_groups) as integer) as task_groups,
        sum(rounds.sum_of_rates) as sum_of_rates,
        product(rounds.product_of_groups) as product_of_groups,
        sum(rounds.score * rounds.round_weight) / any_value(weighted_rounds.total_weight) as score
    from rounds
    inner join weighted_rounds using (problem)
    where rounds.round_weight > 0
    group by rounds.problem, rounds.draw, rounds.entry
    having count(rounds.score) = any_value(weighted_rounds.rounds)
),

-- if any entry has an overall score, the others are listed without one
unranked as (
    select distinct
        problem,
        0 as draw,
        'overall' as round,
        entry
    from rounds
    where problem in (select overall.problem from overall)
    except
    select
        problem,
        draw,
        round,
        entry
    from overall
),

together as (
    select * from rounds
    union all by name
    select * from overall
    union all by name
    select * from unranked
)

select
    problem,
    draw,
    round,
    entry,
    round_weight,
    task_groups,
    product_of_groups,
    sum_of_rates / task_groups as mean_win_rate,
    score,
    -- beyond are the last bits of products, which must not break ties
    if(
        score is null,
        null,
        rank() over (partition by problem, draw, round order by round(score, 12) desc nulls last)
    ) as place
from together
