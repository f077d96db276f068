with variants as (
    select * from {{ ref('stg_metric_variants') }}
),

probes as (
    select distinct
        spec,
        case
            when kind in ('full', 'window') then kind
            else 'retrieval'
        end as kind
    from {{ ref('int_probes') }}
),

families as (
    {% for family in metric_families() -%}
    select
        {{ quoted(family.config.meta.metric) }} as metric,
        {{ quoted(family.config.meta.family) }} as family,
        {{ quoted(family.config.meta.direction) }} as direction,
        {{ family.config.meta.admissible }} as admissible,
        {{ quoted(family.config.meta.needs) }} as needs,
        {{ quoted(family.description) }} as description
    {% if not loop.last %}union all{% endif %}
    {% else -%}
    select
        null as metric,
        null as family,
        null as direction,
        null as admissible,
        null as needs,
        null as description
    limit 0
    {% endfor %}
),

settings as (
    unpivot (
        select
            metric,
            variant,
            cast(columns(* exclude (metric, variant)) as varchar)
        from variants
    )
    on columns(* exclude (metric, variant))
    into name setting value content
),

parameters as (
    select
        metric,
        variant,
        json_group_object(
            setting,
            case
                when try_cast(content as double) is not null then cast(content as json)
                else to_json(content)
            end
        ) as parameters
    from settings
    group by metric, variant
),

metric_catalog as (
    select
        variants.metric,
        concat_ws(
            '@', variants.variant, case when families.needs != 'full' then probes.spec end
        ) as variant,
        families.family,
        parameters.parameters,
        families.direction,
        cast(families.admissible as boolean) as admissible,
        regexp_extract(families.description, '`([^`]+)`', 1) as formula,
        families.description
    from variants
    inner join families
        on variants.metric = families.metric
    inner join parameters
        on variants.metric = parameters.metric
        and variants.variant = parameters.variant
    left join probes
        on families.needs = probes.kind
        and families.needs != 'full'
)

select * from metric_catalog
