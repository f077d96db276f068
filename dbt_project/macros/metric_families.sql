{% macro metric_families() -%}
    {#- The models that declare `meta: metric:`; known only when dbt executes. -#}
    {%- set families = [] -%}
    {%- if execute -%}
        {%- for node in graph.nodes.values() | sort(attribute = 'name')
            if node.resource_type == 'model' and node.config.meta.get('metric') -%}
            {%- do families.append(node) -%}
        {%- endfor -%}
    {%- endif -%}
    {{- return(families) -}}
{%- endmacro %}

{% macro quoted(text) -%}
    '{{ text | replace("'", "''") }}'
{%- endmacro %}
