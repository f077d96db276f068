{#- Nodes of all metrics in dbt's graph. dbt knows them only when it executes. -#}
{% macro metric_nodes() -%}
    {%- set found = [] -%}
    {%- for node in graph.get('nodes', {}).values() | sort(attribute = 'name')
        if execute and node.resource_type == 'model' and node.config.meta.get('variants') -%}
        {%- do found.append(node) -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}
