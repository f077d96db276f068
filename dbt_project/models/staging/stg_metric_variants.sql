-- Variants that are computed, from dbt's graph: macro `metric` puts them there.
select
    * replace (
        cast(is_core as boolean) as is_core,
        cast(transform as varchar) as transform,
        cast(min_tokens as bigint) as min_tokens
    )
from (
    values
    (null, null, null, null, null, null, null, null, null, null, null, null)
    {%- for node in metric_nodes() %}
    {%- for name, own in node.config.meta.variants.items() %}
    {%- set row = dict(node.config.meta.defaults, **own) %}
    {%- if is_in_use(node.name, row.core) %}
    , (
        {{ quoted(node.name) }}, {{ quoted(name) }}, {{ row.core }}, {{ quoted(row.aggregation) }},
        {{ quoted(row.transform) }}, {{ quoted(row.over) }}, {{ quoted(row.numerator) }},
        {{ quoted(row.denominator) }}, {{ quoted(row.where) }}, {{ row.min_tokens }},
        {{ quoted(row.tokens) }}, {{ quoted(local_md5(tojson(dict(row, core=true), sort_keys=true))) }}
    )
    {%- endif %}
    {%- endfor %}
    {%- endfor %}
) as listed (
    metric, variant, is_core, aggregation, transform, over, numerator, denominator, where_clause,
    min_tokens, tokens, code
)
where metric is not null
