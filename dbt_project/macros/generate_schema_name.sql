{% macro generate_schema_name(custom_schema_name, node) -%}
    {#- Schemas are named plainly: staging, intermediate, main. -#}
    {{ custom_schema_name or target.schema }}
{%- endmacro %}
