-- The contexts that metrics of tokens are computed in, and the conditions behind each: one row per
-- problem, kind of probe that a family `needs`, context (what follows `@` in a variant's name; null
-- for none) and condition. A context that compares two conditions token by token has one row, with
-- the shorter one in `short_condition`.

with conditions as (
    select distinct
        problem,
        condition,
        condition_kind,
        probe
    from main.units
    where is_needed
),

conditions_with_choices as (
    select distinct
        problem,
        condition
    from main.top_tokens
),

declared as (
    select distinct
        problem,
        condition,
        unnest(compared_with) as short_condition
    from main.needed
),

-- Every window is compared with the whole document, and whatever the problem file declares.
pairs as (
    select
        long.problem,
        if(
            long.condition_kind = 'full',
            short.condition,
            concat(short.condition, '_in_', long.condition)
        ) as context,
        long.condition,
        short.condition as short_condition
    from conditions as long
    inner join conditions as short using (problem)
    left join declared
        on long.problem = declared.problem
        and long.condition = declared.condition
        and short.condition = declared.short_condition
    where declared.condition is not null
        or (long.condition_kind = 'full' and short.condition_kind = 'window')
)

select
    problem,
    'full' as needs,
    null as context,
    condition,
    null as short_condition
from conditions
where condition_kind = 'full'
union all
select
    problem,
    'window' as needs,
    context,
    condition,
    short_condition
from pairs
union all
select
    pairs.problem,
    'choices' as needs,
    pairs.context,
    pairs.condition,
    pairs.short_condition
from pairs
inner join conditions_with_choices
    on pairs.problem = conditions_with_choices.problem
    and pairs.short_condition = conditions_with_choices.condition
union all
select distinct
    probed.problem,
    -- retrieval and needle probes make two conditions, each of a kind of its own
    regexp_replace(
        probed.condition_kind, '_(with_document|without_document|present|absent)$', ''
    ) as needs,
    probed.probe as context,
    needed.condition,
    null as short_condition
from conditions as probed
inner join conditions as needed using (problem, probe)
where probed.condition_kind not in ('full', 'window')
    -- a control is compared with the answers to the document itself and without it
    and (
        needed.condition = probed.condition
        or probed.condition_kind in ('retrieval_foreign', 'retrieval_shuffled', 'retrieval_tail')
        and needed.condition_kind in ('retrieval_with_document', 'retrieval_without_document')
    )
