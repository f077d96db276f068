{#- The metric families: models that declare `meta: metric:` in their own YAML. -#}

{#-
  One row per family, with its meta. dbt knows the families only when it executes; a linter sees
  no rows.
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
        cast({{ quoted_or_null(node.config.meta.get('transform')) }} as varchar) as transform,
        cast({{ quoted_or_null(node.config.meta.get('caution')) }} as varchar) as caution,
        {{ quoted(local_md5(node.raw_code)) }} as code,
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
        cast(null as varchar) as transform,
        cast(null as varchar) as caution,
        cast(null as varchar) as code,
        cast(null as varchar) as description
    where false
{%- endmacro %}

{% macro quoted(text) -%}
    '{{ text | string | replace("'", "''") }}'
{%- endmacro %}

{% macro quoted_or_null(text) -%}
    {{ 'null' if text is none else quoted(text) }}
{%- endmacro %}

{#- Metrics without a table or view: a selection left them out, so they have no reasons to give. -#}
{% macro never_built_metrics() -%}
    {%- set found = [''] -%}
    {%- for node in graph.get('nodes', {}).values() if execute and not var('shards', none) -%}
        {%- if node.resource_type == 'model' and node.config.meta.get('metric')
            and not adapter.get_relation(node.database, node.schema, node.alias) -%}
            {%- do found.append(node.config.meta.metric) -%}
        {%- endif -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}
