{#-
  One row per variant, document and condition from int_region_sums, int_region_pair_sums or
  int_slope_sums, which the snippets call `sums`: a variant's region is a row there. `unit` byte
  makes the denominator bytes.
-#}
{% macro documents_over_regions(
    metric,
    sums,
    numerator,
    denominator="if(variants.unit = 'byte', sums.bytes, sums.tokens)",
    where='true'
) -%}
    select
        sums.problem,
        sums.model_id,
        sums.condition,
        sums.doc_id,
        sums.document_tokens,
        variants.variant,
        {{ numerator }} as numerator,
        {{ denominator }} as denominator,
        sums.tokens
    from {{ ref(sums) }} as sums
    inner join {{ ref('stg_metric_variants') }} as variants
        on variants.metric = '{{ metric }}'
        and sums.region = variants.region
    where sums.tokens >= variants.min_document_tokens
        and {{ where }}
{%- endmacro %}

{#- NLL in nats per token, or in bits per byte. -#}
{% macro nll_over_regions(metric) -%}
    {{ documents_over_regions(
        metric, 'int_region_sums', numerator = "sums.nll_sum / if(variants.unit = 'byte', ln(2), 1)"
    ) }}
{%- endmacro %}
