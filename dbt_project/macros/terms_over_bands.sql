{#-
  One row per variant, document and condition: sums over the elementary bands that `band` keeps.

  `bands` names an intermediate model, which the snippets call `bands`; `variants` are those of the
  metric. Both aggregates run per document; `per_document` makes them rows of metric_documents.
-#}
{% macro terms_over_bands(
    metric, bands, numerator, denominator='sum(bands.tokens)', band='true'
) -%}
    select
        bands.problem,
        bands.model_id,
        bands.condition,
        bands.doc_id,
        bands.document_tokens,
        variants.variant,
        {{ numerator }} as numerator,
        {{ denominator }} as denominator,
        sum(bands.tokens) as tokens
    from {{ ref(bands) }} as bands
    inner join {{ ref('stg_metric_variants') }} as variants
        on variants.metric = '{{ metric }}'
        and {{ band }}
    group by all
{%- endmacro %}
