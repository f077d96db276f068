{% macro generate_schema_name(custom_schema_name, node) -%}
    {#- Schemas are named plainly: staging, intermediate, main. dbt asks for each model, and a model
        in Python, which could read target scores, is refused here. -#}
    {%- if node.language == 'python' -%}
        {{ exceptions.raise_compiler_error(node.original_file_path ~ ': write models in SQL') }}
    {%- endif -%}
    {{ custom_schema_name or target.schema }}
{%- endmacro %}
