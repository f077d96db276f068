-- depends_on: {{ ref('metric_values') }}

with variants as (
    select * from {{ ref('stg_metric_variants') }}
),

conditions as (
    select distinct
        probe,
        -- a retrieval probe makes two conditions, each of a kind of its own
        regexp_replace(kind, '_(with|without)_document$', '') as kind
    from {{ ref('int_conditions') }}
),

families as (
    {{ metric_family_rows() }}
),

parameters as (
    select
        metric,
        variant,
        -- A merge patch drops the keys whose value is null.
        json_merge_patch(
            json_object('metric', metric),
            to_json(variants),
            json_object('metric', null, 'variant', null)
        ) as parameters
    from variants
),

metric_catalog as (
    select
        variants.metric,
        concat_ws(
            '@', variants.variant, case when families.needs != 'full' then conditions.probe end
        ) as variant,
        families.family,
        parameters.parameters,
        families.direction,
        families.admissible,
        regexp_extract(families.description, '`([^`]+)`', 1) as formula,
        families.description
    from variants
    inner join families
        on variants.metric = families.metric
    inner join parameters
        on variants.metric = parameters.metric
        and variants.variant = parameters.variant
    left join conditions
        on families.needs = conditions.kind
        and families.needs != 'full'
)

select * from metric_catalog
