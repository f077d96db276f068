with answered as (
    select * from {{ ref('int_eval_answered') }}
    where request_type = 'generate_until'
        -- null where the task has no exact_match, or one of its own
        and coalesce(json_type(options -> 'exact_match'), '') != 'NULL'
),

compared as (
    select
        answered.*,
        main.as_compared(coalesce(answered.answer, ''), answered.options -> 'exact_match')
        = main.as_compared(golds.text, answered.options -> 'exact_match') as is_equal
    from answered,
        unnest(cast(answered.gold as varchar[])) as golds (text)
),

repeats as (
    select
        problem,
        model_id,
        condition,
        item,
        filter,
        segment,
        any_value(backend) as backend,
        cast(bool_or(is_equal) as double) as is_match
    from compared
    group by problem, model_id, condition, item, filter, segment
)

select
    problem,
    model_id,
    condition,
    item,
    filter,
    any_value(backend) as backend,
    avg(is_match) as value  -- noqa: RF04
from repeats
where is_match is not null
group by problem, model_id, condition, item, filter
