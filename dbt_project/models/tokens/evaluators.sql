with models as (
    select * from {{ source('extract', 'models') }}
),

lineup as (
    select * from {{ source('extract', 'lineup') }}
),

-- What was done to a checkpoint (`base_id`) doesn't make it another evaluator.
sizes as (
    select
        problem,
        model_id,
        parameters
    from models
    where base_id is null
    union all
    select
        problem,
        model_id,
        parameters
    from lineup
    where parameters is not null
),

evaluators as (
    select
        problem,
        {% if var('evaluator', none) -%}
        '{{ var('evaluator') }}' as model_id
        {%- else -%}
        arg_max(model_id, (parameters, model_id)) as model_id
        {%- endif %}
    from sizes
    group by problem
)

select * from evaluators
