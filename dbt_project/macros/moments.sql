{#-
  What least squares of y = NLL on x (see int_position_sums) and x² need: sums over each
  document's tokens from a variant's first position on, where there are more than `fewest`.
-#}
{% macro moments(metric, fewest) -%}
    select
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        sum(position_sums.tokens) as tokens,
        sum(position_sums.nll_sum) as y_sum,
        sum(position_sums.x_sum) as x_sum,
        sum(position_sums.xx_sum) as xx_sum,
        sum(position_sums.xxx_sum) as xxx_sum,
        sum(position_sums.xxxx_sum) as xxxx_sum,
        sum(position_sums.xy_sum) as xy_sum,
        sum(position_sums.xxy_sum) as xxy_sum
    from {{ ref('int_position_sums') }} as position_sums
    inner join {{ ref('stg_metric_variants') }} as variants
        on variants.metric = '{{ metric }}'
        and position_sums.position_floor >= variants.from_position
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant
    having sum(position_sums.tokens) > {{ fewest }}
{%- endmacro %}
