{#-
  What least squares of NLL on x and x² need, x = log2(position + 1) - 10: sums over each document's
  tokens from a variant's first position on, where there are more than `fewest`. `x2_y_sum` is
  the sum of x² y, y = NLL.
-#}
{% macro position_moments(metric, fewest) -%}
    select
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        position_sums.document_tokens,
        variants.variant,
        sum(position_sums.tokens) as tokens,
        sum(position_sums.nll_sum) as y_sum,
        sum(position_sums.log_position_sum) as x_sum,
        sum(position_sums.log_position_squared_sum) as x2_sum,
        sum(position_sums.log_position_cubed_sum) as x3_sum,
        sum(position_sums.log_position_fourth_power_sum) as x4_sum,
        sum(position_sums.log_position_nll_sum) as x_y_sum,
        sum(position_sums.log_position_squared_nll_sum) as x2_y_sum
    from {{ ref('int_position_sums') }} as position_sums
    inner join {{ ref('stg_metric_variants') }} as variants
        on variants.metric = '{{ metric }}'
        and position_sums.position_floor >= variants.from_position
    group by all
    having sum(position_sums.tokens) > {{ fewest }}
{%- endmacro %}
