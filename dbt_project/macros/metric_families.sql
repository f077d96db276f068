{#-
  One row per metric family: the models that declare `meta: metric:` in their own YAML.
  dbt knows them only when it executes; a linter sees no rows.
-#}
{% macro metric_family_rows() -%}
    {%- if execute -%}
        {%- for node in graph.nodes.values() | sort(attribute = 'name')
            if node.resource_type == 'model' and node.config.meta.get('metric') %}
    select
        {{ quoted(node.config.meta.metric) }} as metric,
        {{ quoted(node.config.meta.family) }} as family,
        {{ quoted(node.config.meta.direction) }} as direction,
        cast({{ node.config.meta.admissible }} as boolean) as admissible,
        {{ quoted(node.config.meta.needs) }} as needs,
        {{ quoted(node.description) }} as description
    union all
        {%- endfor -%}
    {%- endif %}
    select
        cast(null as varchar) as metric,
        cast(null as varchar) as family,
        cast(null as varchar) as direction,
        cast(null as boolean) as admissible,
        cast(null as varchar) as needs,
        cast(null as varchar) as description
    where false
{%- endmacro %}

{% macro quoted(text) -%}
    '{{ text | string | replace("'", "''") }}'
{%- endmacro %}
