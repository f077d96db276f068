{#- Scored tokens of done units of some kinds of conditions, with the columns of the ledger. -#}
{% macro probe_tokens(condition) -%}
    select * from {{ source('extract', 'tokens') }}
    inner join {{ source('extract', 'units') }} using (problem, model_id, condition, doc_id)
    where status = 'done'
        and {{ condition }}
{%- endmacro %}
