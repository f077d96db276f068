{#- What the rows of every metric have: nine columns, a finite value, and one row for each key. -#}
{% test metric_contract(model) %}
    select
        problem,
        metric,
        variant,
        model_id,
        doc_id,
        numerator,
        denominator,
        weight,
        tokens
    from {{ model }}
    qualify count(*) over (partition by problem, metric, variant, model_id, doc_id) > 1
        or not coalesce(isfinite(numerator / denominator) and isfinite(weight), false)
        or coalesce(tokens, 0) < 1
        or least(problem is not null, variant is not null, model_id is not null, doc_id is not null)
        = false
{% endtest %}
