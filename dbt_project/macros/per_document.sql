{#-
  The last step of every family: the rows of metric_documents, one per (problem, variant, model,
  document).

  `documents` is a relation with problem, variant, model_id, doc_id, document_tokens, numerator,
  denominator and tokens. A document's own value is numerator / denominator; a document without
  denominator has no row. metric_values makes documents into one value, by the variant's
  aggregation.

  `suffix` is a column whose value follows the variant's name, `variant@value`: a family that
  compares two conditions has a value for each probe that asks for the other one.
-#}
{% macro per_document(documents, suffix=none) -%}
    select
        problem,
        {% if suffix -%}
        concat(variant, '@', {{ suffix }}) as variant,
        {%- else -%}
        variant,
        {%- endif %}
        model_id,
        doc_id,
        cast(numerator as double) as numerator,
        cast(denominator as double) as denominator,
        cast(document_tokens as double) as weight,
        cast(tokens as bigint) as tokens
    from {{ documents }}
    where denominator != 0
{%- endmacro %}
