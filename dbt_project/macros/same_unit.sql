{#- Whether two rows belong to the same document, scored by one model in one condition. -#}
{% macro same_unit(rows, units, condition='condition') -%}
    {{ rows }}.problem = {{ units }}.problem
        and {{ rows }}.model_id = {{ units }}.model_id
        and {{ rows }}.condition = {{ units }}.{{ condition }}
        and {{ rows }}.doc_id = {{ units }}.doc_id
{%- endmacro %}
