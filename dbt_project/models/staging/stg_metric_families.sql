-- Metrics with what their YAML says.

select
    * replace (
        cast(is_admissible as boolean) as is_admissible,
        cast(caution as varchar) as caution
    )
from (
    values
    (null, null, null, null, null, null, null)
    {%- for node in metric_nodes() %}
    {%- set meta = node.config.meta %}
    , (
        {{ quoted(node.name) }}, {{ quoted(meta.family) }}, {{ quoted(meta.direction) }},
        {{ meta.admissible }}, {{ quoted(meta.needs) }}, {{ quoted(meta.get('caution')) }},
        {{ quoted(node.description) }}
    )
    {%- endfor %}
) as listed (metric, family, direction, is_admissible, needs, caution, description)
where metric is not null
