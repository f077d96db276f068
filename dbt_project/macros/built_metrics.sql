{#- Nodes of the metrics that have a table: those that a selection left out may have none. -#}
{% macro built_metrics() -%}
    {%- set found = [] -%}
    {%- for node in graph.get('nodes', {}).values() | sort(attribute = 'name')
        if execute and node.resource_type == 'model' and node.config.meta.get('variants')
        and adapter.get_relation(node.database, node.schema, node.alias) -%}
        {%- do found.append(node) -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}
