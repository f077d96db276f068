{#-
  The last step of every family: from one term per (variant, model, document) to metric
  values, one row per (problem, metric, variant, model).

  `terms` is a relation with problem, variant, model_id, doc_id, numerator, denominator and
  tokens, and, where a family has them, condition (the variant is then named `variant@condition`),
  weight (for the aggregation `weighted`) and is_log (the value is exponentiated last).
  A document's own value is numerator / denominator; documents without denominator drop out.

  Aggregations: micro = ratio of sums, macro = mean over documents, weighted = mean weighted
  by `weight`, median, q10 and q90 = deciles over documents.
-#}
{% macro over_documents(metric, terms, condition=none, weight=none, is_log='false') -%}
    select
        terms.problem,
        '{{ metric }}' as metric,
        {% if condition -%}
        concat(terms.variant, '@', terms.{{ condition }}) as variant,
        {%- else -%}
        terms.variant,
        {%- endif %}
        terms.model_id,
        cast(
            case
                when sum(terms.tokens) < any_value(variants.min_tokens) then null
                else {{ aggregate_of_ratio(weight, is_log) }}
            end as double
        ) as value,
        cast(coalesce(sum(terms.tokens), 0) as bigint) as tokens,
        count(distinct terms.doc_id) filter (where terms.denominator != 0) as documents,
        case
            when sum(terms.tokens) < any_value(variants.min_tokens)
                then concat(
                    sum(terms.tokens), ' of at least ', any_value(variants.min_tokens), ' tokens'
                )
            when count(*) filter (where terms.denominator != 0) = 0 then 'undefined'
        end as reason
    from {{ terms }} as terms
    inner join {{ ref('stg_metric_variants') }} as variants
        on variants.metric = '{{ metric }}'
        and terms.variant = variants.variant
    group by all
{%- endmacro %}

{% macro aggregate_of_ratio(weight, is_log) -%}
    {%- set ratio = 'terms.numerator / nullif(terms.denominator, 0)' -%}
    {%- set aggregate -%}
                    case any_value(variants.aggregation)
                        when 'micro'
                            then sum(terms.numerator) filter (where terms.denominator != 0)
                                / nullif(sum(terms.denominator), 0)
                        when 'macro' then avg({{ ratio }})
                        {% if weight -%}
                        when 'weighted'
                            then sum(terms.{{ weight }} * {{ ratio }})
                                / sum(terms.{{ weight }}) filter (where terms.denominator != 0)
                        {% endif -%}
                        when 'median' then quantile_cont({{ ratio }}, 0.5)
                        when 'q10' then quantile_cont({{ ratio }}, 0.1)
                        when 'q90' then quantile_cont({{ ratio }}, 0.9)
                    end
    {%- endset -%}
    {%- if is_log == 'false' -%}
    {{ aggregate }}
    {%- else -%}
    case when any_value({{ is_log }}) then exp({{ aggregate }}) else {{ aggregate }} end
    {%- endif -%}
{%- endmacro %}
