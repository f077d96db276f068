{#- Hash of the SQL of models, so that rows made by another text of theirs have another id. -#}
{% macro code_of(names) -%}
    {%- set texts = [] -%}
    {%- for name in names if execute and graph.nodes -%}
        {%- do texts.append(graph.nodes['model.' ~ project_name ~ '.' ~ name].raw_code) -%}
    {%- endfor -%}
    '{{ local_md5(texts | join('\n')) }}'
{%- endmacro %}
