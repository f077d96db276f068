{#-
  Incremental tables by unit. A unit is one document in one context condition (or in a pair
  of them); its unit_id hashes what it is and the content of its rows, so a changed unit is
  another unit. What a table computes from a unit carries a build_id: unit_id, the text of the
  model's SQL and the thresholds in use. `drop_stale_builds` (a pre-hook) forgets builds that
  nothing current asks for; `missing_builds` lists the units to compute.
-#}

{% macro build_id(settings, id) -%}
    {%- if execute -%}
    hash(units.{{ id }}, '{{ local_md5(model.raw_code ~ (settings | string)) }}')
    {%- else -%}
    hash(units.{{ id }})
    {%- endif -%}
{%- endmacro %}

{% macro missing_builds(units, settings=[], id='unit_id') -%}
    select
        units.*,
        {{ build_id(settings, id) }} as build_id
    from {{ units }} as units
    {% if is_incremental() -%}
    where {{ build_id(settings, id) }} not in (select distinct build_id from {{ this }})
    {%- endif %}
{%- endmacro %}

{% macro drop_stale_builds(units, settings=[], id='unit_id') -%}
    {%- if is_incremental() -%}
    delete from {{ this }}
    where build_id not in (select {{ build_id(settings, id) }} from {{ units }} as units)
    {%- else -%}
    select 1
    {%- endif -%}
{%- endmacro %}
