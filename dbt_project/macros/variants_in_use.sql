{#-
  The rows of variants/*.csv that a build makes, as text: the core, and the grids that
  `--vars '{grids: true}'` or `--vars '{grids: [longppl]}'` ask for. A family without any core
  variant, as a new one is, is made whole.
-#}
{% macro variants_in_use() -%}
    {%- set grids = var('grids', false) -%}
    select
        *,
        {{ settings_as_written() }} as written
    from {{ source('library', 'metric_variants') }}
    {%- if grids is not sameas true %}
    qualify core is not null
        or not bool_or(core is not null) over (partition by metric)
        {%- for metric in grids or [] %}
        or metric = {{ quoted(metric) }}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}

{#- The settings of a row in one text, whatever the order of the columns: `alpha=2 beta=-2 …`. -#}
{% macro settings_as_written() -%}
    concat_ws(
            ' '
            {%- if execute -%}
            {%- set columns = graph.nodes['model.tokenmart.stg_metric_variants'].columns -%}
            {%- for name in columns if name not in (
                'metric', 'variant', 'core', 'written', 'region', 'base_region'
            ) -%}
            , '{{ name }}=' || {{ name }}
            {%- endfor -%}
            {%- endif %}
        )
{%- endmacro %}
