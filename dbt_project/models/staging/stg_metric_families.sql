-- Metric families: the models that declare `meta: metric:` in their YAML. dbt knows them only when
-- it executes.

{%- set families = [] -%}
{%- for node in graph.get('nodes', {}).values() | sort(attribute = 'name')
    if execute and node.resource_type == 'model' and node.config.meta.get('metric') -%}
    {%- do families.append(node) -%}
{%- endfor %}

{%- for node in families %}
{%- set meta = node.config.meta %}
select
    {{ quoted(meta.metric) }} as metric,
    {{ quoted(meta.family) }} as family,
    {{ quoted(meta.direction) }} as direction,
    cast({{ meta.admissible }} as boolean) as admissible,
    {{ quoted(meta.needs) }} as needs,
    cast({{ quoted(meta.get('transform')) }} as varchar) as transform,
    cast({{ quoted(meta.get('caution')) }} as varchar) as caution,
    {{ quoted(local_md5(node.raw_code)) }} as code,
    {{ quoted(node.description) }} as description
{{ 'union all' if not loop.last }}
{%- endfor %}
