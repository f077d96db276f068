{#- Documents of corpora that an incremental table of texts lacks, with the build_id of each. -#}
{% macro missing_documents() -%}
    select
        units.build_id,
        documents.*
    from {{ ref('stg_documents') }} as documents
    inner join (
        {{ missing_builds(ref('int_corpora'), id = 'corpus_id') }}
    ) as units
        on documents.problem = units.problem
{%- endmacro %}
