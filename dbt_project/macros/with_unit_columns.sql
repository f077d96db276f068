{#- Rows computed by build_id, with the columns of their unit that metrics read. -#}
{% macro with_unit_columns(rows) -%}
    select
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        units.document_tokens,
        {{ rows }}.*
    from {{ rows }}
    inner join units
        on {{ rows }}.build_id = units.build_id
{%- endmacro %}
