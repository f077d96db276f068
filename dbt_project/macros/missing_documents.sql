{#- Documents of corpora that an incremental table of texts lacks, with the build_id of each. -#}
{% macro missing_documents() -%}
    select
        corpora.build_id,
        documents.*
    from {{ ref('stg_documents') }} as documents
    inner join (
        {{ missing_builds(ref('int_corpora'), ids = ['corpus_id']) }}
    ) as corpora
        on documents.problem = corpora.problem
{%- endmacro %}
