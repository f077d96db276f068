-- Documents to one value per model, as the variant's `aggregation` says (variants/*.csv). Then exp()
-- where the metric's YAML has `transform: exp` and the variant's unit is token, the default: bits per
-- byte stay bits. A missing value has a row with the reason.

with documents as (
    select
        *,
        split_part(variant, '@', 1) as variant_name,
        numerator / denominator as ratio
    from {{ ref('metric_documents') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
),

families as (
    select * from {{ ref('stg_metric_families') }}
),

expected_values as (
    select * from {{ ref('expected_values') }}
),

combined as (
    select
        documents.problem,
        documents.metric,
        documents.variant,
        documents.model_id,
        case any_value(variants.aggregation)
            when 'micro' then sum(documents.numerator) / nullif(sum(documents.denominator), 0)
            when 'macro' then avg(documents.ratio)
            when 'weighted'
                then sum(documents.weight * documents.ratio) / sum(documents.weight)
            when 'median' then quantile_cont(documents.ratio, 0.5)
            when 'q10' then quantile_cont(documents.ratio, 0.1)
            when 'q90' then quantile_cont(documents.ratio, 0.9)
        end as combined_ratio,
        any_value(families.transform = 'exp' and variants.unit = 'token') as is_exponentiated,
        any_value(variants.min_tokens) as min_tokens,
        cast(sum(documents.tokens) as bigint) as tokens,
        count(*) as documents
    from documents
    inner join variants
        on documents.metric = variants.metric
        and documents.variant_name = variants.variant
    inner join families
        on documents.metric = families.metric
    group by all
),

-- Sums of floats come out otherwise in their last bits each time. Ten significant digits keep
-- models that are alike on a metric equal, so that ranks don't depend on the run.
rounded as (
    select
        *,
        cast(
            format('{:.9e}', if(is_exponentiated, exp(combined_ratio), combined_ratio)) as double
        ) as rounded_value
    from combined
),

measured as (
    select
        problem,
        metric,
        variant,
        model_id,
        case when tokens >= min_tokens and isfinite(rounded_value) then rounded_value end as value,
        tokens,
        documents,
        case
            when tokens < min_tokens
                then concat(tokens, ' of at least ', min_tokens, ' tokens')
            when value is null then 'undefined'
        end as reason
    from rounded
),

found as (
    select * from measured
    {%- for plugin in context.keys() | sort if plugin.startswith('adds_metric_values__') %}
    {%- set given = context[plugin]() %}
    {%- if given and load_relation(given) %}
    union all by name
    select * from {{ given }}
    {%- endif %}
    {%- endfor %}
),

missing as (
    select
        expected_values.problem,
        expected_values.metric,
        expected_values.variant,
        expected_values.model_id,
        0 as tokens,
        0 as documents,
        expected_values.reason_if_missing as reason
    from expected_values
    left join found
        on expected_values.problem = found.problem
        and expected_values.metric = found.metric
        and expected_values.variant = found.variant
        and expected_values.model_id = found.model_id
    where found.model_id is null
        and expected_values.metric not in (
            '{{ never_built_metrics() | join("', '") }}'
        )
),

metric_values as (
    select * from found
    union all by name
    select * from missing
)

select * from metric_values
