-- Documents to one value per model (macro `combined_documents`). A missing value has a row with the
-- reason, unless a selection left the metric out, so that it has no table.
{%- set never_built = [''] -%}
{%- for node in metric_nodes()
    if not adapter.get_relation(node.database, node.schema, node.alias) -%}
    {%- do never_built.append(node.name) -%}
{%- endfor %}

with documents as (
    select * from {{ ref('metric_documents') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
),

expected_values as (
    select * from {{ ref('expected_values') }}
),

measured as (
    {{ combined_documents() }}
),

found as (
    select * from measured
    {%- for relation in plugin_relations('adds_metric_values__') %}
    union all by name
    select * from {{ relation }}
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
    left join found using (problem, metric, variant, model_id)
    where found.model_id is null
        and expected_values.metric not in ('{{ never_built | join("', '") }}')
),

metric_values as (
    select * from found
    union all by name
    select * from missing
)

select * from metric_values
