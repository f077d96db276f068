-- What is known of a run (or recipe) before any evaluation: its size, and size × planned tokens,
-- where the table has tokens: steps of different batch sizes are not comparable.

with series as (
    select * from {{ ref('int_benchmark_series') }}
),

runs as (
    select
        problem,
        model_id,
        any_value(replace(recipe, '/', '--')) as recipe,
        any_value(size) as size,
        any_value(parameters) as parameters,
        any_value(parameters) * max(tokens) as parameters_x_tokens
    from series
    where parameters is not null
    group by problem, model_id
),

subjects as (
    select
        problem,
        'share' as kind,
        cast(null as varchar) as size,
        model_id as subject,
        cast(parameters as double) as parameters,
        cast(parameters_x_tokens as double) as parameters_x_tokens
    from runs
    union all by name
    select
        problem,
        'size' as kind,
        size,
        recipe as subject,
        cast(avg(parameters) as double) as parameters,
        cast(avg(parameters_x_tokens) as double) as parameters_x_tokens
    from runs
    where recipe is not null and size is not null
    group by problem, size, recipe
)

unpivot subjects
on parameters, parameters_x_tokens
into name metric value value
