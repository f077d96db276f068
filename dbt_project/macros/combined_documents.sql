{#-
  Values of documents to one value, as the variant's `aggregation` says. Then exp() where its
  `transform` is exp.

  `documents` has the columns of metric_documents; `variants` is a CTE, too. `by` names a further
  column of `documents`: one row for each of its values.
-#}
{% macro combined_documents(by=none) -%}
    select
        problem,
        metric,
        variant,
        model_id,
        {%- if by %}
        {{ by }},
        {%- endif %}
        -- Sums of floats come out otherwise in their last bits each time. Ten significant digits
        -- keep models that are alike on a metric equal, so that ranks don't depend on the run.
        case
            when tokens >= min_tokens and isfinite(exact_value)
                then cast(format('{:.9e}', exact_value) as double)
        end as value,
        tokens,
        documents,
        case
            when tokens < min_tokens
                then concat(tokens, ' of at least ', min_tokens, ' tokens')
            when value is null then 'undefined'
        end as reason
    from (
        select
            documents.problem,
            documents.metric,
            documents.variant,
            documents.model_id,
            {%- if by %}
            documents.{{ by }},
            {%- endif %}
            case any_value(variants.aggregation)
                when 'micro'
                    then sum(documents.numerator) / nullif(sum(documents.denominator), 0)
                when 'macro' then avg(documents.numerator / documents.denominator)
                when 'weighted'
                    then sum(documents.weight * documents.numerator / documents.denominator)
                        / sum(documents.weight)
                when 'median'
                    then quantile_cont(documents.numerator / documents.denominator, 0.5)
                when 'q10'
                    then quantile_cont(documents.numerator / documents.denominator, 0.1)
                when 'q90'
                    then quantile_cont(documents.numerator / documents.denominator, 0.9)
            end as combined_ratio,
            if(
                any_value(variants.transform) = 'exp',
                exp(combined_ratio),
                combined_ratio
            ) as exact_value,
            any_value(variants.min_tokens) as min_tokens,
            cast(sum(documents.tokens) as bigint) as tokens,
            count(*) as documents
        from documents
        inner join variants
            on documents.metric = variants.metric
            and split_part(documents.variant, '@', 1) = variants.variant
        group by all
    ) as combined
{%- endmacro %}
