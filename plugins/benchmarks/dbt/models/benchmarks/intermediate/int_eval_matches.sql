with repeats as (
    select * from {{ ref('int_eval_repeats') }}
),

matches as (
    select
        problem,
        model_id,
        condition,
        item,
        filter,
        any_value(backend) as backend,
        avg(is_match) as value  -- noqa: RF04
    from repeats
    group by problem, model_id, condition, item, filter
)

select * from matches
