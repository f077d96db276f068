{#- Built relations that plugins add: those of their macros whose name starts so. -#}
{% macro plugin_relations(prefix) -%}
    {%- set found = [] -%}
    {%- for name in context.keys() | sort if name.startswith(prefix) -%}
        {%- set relation = context[name]() -%}
        {%- if relation and load_relation(relation) -%}
            {%- do found.append(relation) -%}
        {%- endif -%}
    {%- endfor -%}
    {{- return(found) -}}
{%- endmacro %}
