-- Why an entry has no overall score: one row for each round with a weight in which it has none.
-- `Bob` in one round and `bob` in another are two entries, and often a misspelling of one.

with scores as (
    select
        *,
        regexp_replace(lower(entry), '[\s_.-]+', '', 'g') as spelling
    from {{ ref('int_ranking_scores') }}
    where draw = 0
),

weighted_rounds as (
    select distinct
        problem,
        round
    from scores
    where round_weight > 0
),

unranked as (
    select * from scores
    where round = 'overall' and score is null
),

round_gaps as (
    select
        unranked.problem,
        unranked.entry,
        weighted_rounds.round,
        count(*) filter (where scores.entry = unranked.entry) > 0 as has_results,
        string_agg(scores.entry, ' or ' order by scores.entry) filter (
            where scores.entry != unranked.entry
        ) as look_alikes
    from unranked
    inner join weighted_rounds
        on unranked.problem = weighted_rounds.problem
    left join scores
        on unranked.problem = scores.problem
        and weighted_rounds.round = scores.round
        and unranked.spelling = scores.spelling
    group by unranked.problem, unranked.entry, weighted_rounds.round
    having count(scores.score) filter (where scores.entry = unranked.entry) = 0
),

causes as (
    select
        problem,
        entry,
        round,
        case
            when has_results then 'not ranked in it'
            when look_alikes is null then 'no result'
            else concat('no result; is it the same as ', look_alikes, '?')
        end as cause
    from round_gaps
)

select * from causes
