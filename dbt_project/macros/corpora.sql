{#- An id of each problem's documents: words are counted in all of them. -#}
{% macro corpora() -%}
    select
        problem,
        hash(
            problem,
            string_agg(concat(doc_id, ':', sha256), ' ' order by doc_id),
            {{ code_of(['words']) }}
        ) as corpus_id
    from {{ source('extract', 'documents') }}
    group by problem
{%- endmacro %}
