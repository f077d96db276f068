with units as (
    select * from {{ ref('stg_units') }}
),

done as (
    select * from units
    where status = 'done'
),

conditions as (
    select
        problem,
        model_id,
        condition,
        any_value(condition_kind) as kind,
        any_value(probe) as probe
    from done
    group by problem, model_id, condition
)

select * from conditions
