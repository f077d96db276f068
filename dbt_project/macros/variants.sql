{#-
  Rows of variants/*.csv as mappings: those over some tables, or of one metric.

  Columns that a CSV may leave out: core (built by default), unit (token, or byte: the value is never
  exponentiated), tokens (the count, by default count(*)), min_tokens (fewer tokens in all documents:
  no value), min_document_tokens (documents with fewer counted tokens don't count). Both default to 1.

  The default is the core; `--vars '{grids: true}'` or `--vars '{grids: [longppl]}'` adds the grids.
  A metric without any core variant, as a new one is, is used whole. Unit tests set `only_metrics`.
-#}
{% macro variants(over=none, metric=none) -%}
    {%- set found = [] -%}
    {%- if execute -%}
        {%- for row in run_query(variants_query()).rows
            if (not over or row.over in over)
            and (not metric or row.metric == metric)
            and (not var('only_metrics', none) or row.metric in var('only_metrics')) -%}
            {%- do found.append(row.dict()) -%}
        {%- endfor -%}
    {%- endif -%}
    {{- return(found) -}}
{%- endmacro %}

{% macro variants_query() -%}
    {%- set grids = var('grids', false) -%}
    select
        metric,
        variant,
        core is not null as core,
        aggregation,
        coalesce(unit, 'token') as unit,
        over,
        numerator,
        denominator,
        coalesce("where", 'true') as where_clause,
        coalesce(tokens, 'count(*)') as tokens,
        coalesce(cast(min_tokens as bigint), 1) as min_tokens,
        coalesce(cast(min_document_tokens as bigint), 1) as min_document_tokens,
        md5(concat_ws(
            ' ', metric, variant, over, numerator, denominator, "where", tokens, min_document_tokens
        )) as definition
    -- DuckDB is to guess nothing: its guesses skip all rows before one that has a value too many.
    from read_csv(
        'variants/*.csv', union_by_name = true, all_varchar = true, header = true,
        skip = 0, delim = ',', quote = '"', escape = '"', comment = '',
        strict_mode = false, hive_partitioning = false
    )
    {%- if grids is not sameas true %}
    qualify core is not null
        or not bool_or(core is not null) over (partition by metric)
        {%- for metric in grids or [] %}
        or metric = '{{ metric }}'
        {%- endfor %}
    {%- endif %}
    order by metric, variant
{%- endmacro %}
