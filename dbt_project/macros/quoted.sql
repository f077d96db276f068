{#- A text as an SQL literal. -#}
{% macro quoted(text) -%}
    {{ 'null' if text is none else "'" ~ (text | string | replace("'", "''")) ~ "'" }}
{%- endmacro %}
