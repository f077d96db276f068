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

metric_catalog as (
    select
        variants.metric,
        coalesce(valued.variant, variants.variant) as variant,
        families.family,
        json_object(
            'aggregation', variants.aggregation,
            'over', variants.over,
            'numerator', variants.numerator,
            'denominator', variants.denominator,
            'where', variants.where_clause
        ) as parameters,
        variants.is_core,
        families.direction,
        families.is_admissible,
        variants.transform,
        families.caution,
        variants.code,
        regexp_extract(families.description, '`([^`]+)`', 1) as formula,
        families.description
    from variants
    inner join families using (metric)
    left join valued
        on variants.metric = valued.metric
        and variants.variant = valued.variant_name
)

select * from metric_catalog
{%- for relation in plugin_relations('adds_metric_catalog__') %}
union all by name
select * from {{ relation }}
{%- endfor %}
