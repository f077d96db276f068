-- Documents to one value per model (macro `combined_documents`). A missing value has a row with the
-- reason.

with documents as (
    select * from {{ ref('metric_documents') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
),

families as (
    select * from {{ ref('stg_metric_families') }}
),

expected_values as (
    select * from {{ ref('expected_values') }}
),

measured as (
    {{ combined_documents() }}
),

found as (
    select * from measured
    {%- for plugin in context.keys() | sort if plugin.startswith('adds_metric_values__') %}
    {%- set given = context[plugin]() %}
    {%- if given and load_relation(given) %}
    union all by name
    select * from {{ given }}
    {%- endif %}
    {%- endfor %}
),

missing as (
    select
        expected_values.problem,
        expected_values.metric,
        expected_values.variant,
        expected_values.model_id,
        0 as tokens,
        0 as documents,
        expected_values.reason_if_missing as reason
    from expected_values
    left join found
        on expected_values.problem = found.problem
        and expected_values.metric = found.metric
        and expected_values.variant = found.variant
        and expected_values.model_id = found.model_id
    where found.model_id is null
        and expected_values.metric not in (
            '{{ never_built_metrics() | join("', '") }}'
        )
),

metric_values as (
    select * from found
    union all by name
    select * from missing
)

select * from metric_values
