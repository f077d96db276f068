{#-
  NLL (or bits, for variants with the unit `byte`) and tokens (or bytes) of each document, over
  the elementary bands of int_position_sums that `band` keeps for a variant.
-#}
{% macro nll_over_bands(metric, band='true') -%}
    select
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        variants.unit,
        sum(position_sums.nll_sum)
        / case when variants.unit = 'byte' then ln(2) else 1 end as numerator,
        sum(
            case when variants.unit = 'byte' then position_sums.bytes else position_sums.tokens end
        ) as denominator,
        sum(position_sums.tokens) as tokens
    from {{ ref('int_position_sums') }} as position_sums
    inner join {{ ref('stg_metric_variants') }} as variants
        on variants.metric = '{{ metric }}'
        and {{ band }}
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        variants.unit
{%- endmacro %}
