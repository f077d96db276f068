with variants as (
    select * from {{ ref('stg_metric_variants') }}
),

families as (
    select * from {{ ref('stg_metric_families') }}
),

valued as (
    select distinct
        metric,
        variant,
        split_part(variant, '@', 1) as variant_name
    from {{ ref('metric_values') }}
),

parameters as (
    select
        metric,
        variant,
        -- A merge patch drops the keys whose value is null.
        json_merge_patch(
            json_object('metric', metric),
            to_json(variants),
            json_object(
                'metric', null,
                'variant', null,
                'core', null,
                'written', null,
                'region', null,
                'base_region', null
            )
        ) as parameters
    from variants
),

metric_catalog as (
    select
        variants.metric,
        coalesce(valued.variant, variants.variant) as variant,
        families.family,
        parameters.parameters,
        variants.written,
        variants.core,
        families.direction,
        families.admissible,
        families.transform,
        trim(families.caution) as caution,
        families.code,
        regexp_extract(families.description, '`([^`]+)`', 1) as formula,
        families.description
    from variants
    inner join families
        on variants.metric = families.metric
    inner join parameters
        on variants.metric = parameters.metric
        and variants.variant = parameters.variant
    left join valued
        on variants.metric = valued.metric
        and variants.variant = valued.variant_name
)

select * from metric_catalog
{% for name in context.keys() | sort if name.startswith('adds_metric_catalog__') %}
union all by name
select * from {{ context[name]() }}
{% endfor %}
