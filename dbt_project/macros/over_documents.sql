{#-
  The last step of every family: from one term per (variant, model, document) to metric
  values, one row per (problem, metric, variant, model).

  `terms` is a relation with problem, variant, model_id, doc_id, numerator, denominator and
  tokens. A document's own value is numerator / denominator; documents without denominator drop
  out. Optional:
  - suffix: a column whose value follows the variant's name, `variant@value`; a family that
    compares two conditions has a value for each probe that asks for the other one.
  - weight: a column of `terms`, for the aggregation `weighted`.
  - is_log: an expression over `terms` or `variants`; where it is true the value is exponentiated last.

  Aggregations: micro = ratio of sums, macro = mean over documents, weighted = mean weighted
  by `weight`, median, q10 and q90 = deciles over documents.
-#}
{% macro over_documents(metric, terms, suffix=none, weight=none, is_log=none) -%}
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
    select
        terms.problem,
        '{{ metric }}' as metric,
        {% if suffix -%}
        concat(terms.variant, '@', terms.{{ suffix }}) as variant,
        {%- else -%}
        terms.variant,
        {%- endif %}
        terms.model_id,
        cast(
            case
                when sum(terms.tokens) < any_value(variants.min_tokens) then null
                {% if is_log -%}
                when any_value({{ is_log }}) then exp({{ aggregate }})
                {% endif -%}
                else {{ aggregate }}
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
