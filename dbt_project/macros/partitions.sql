{#-
  Incremental tables by unit. A unit is one document in one context condition (or in a pair
  of them); its unit_id hashes what it is and the content of its rows, so a changed unit is
  another unit. What a table computes from a unit carries a build_id: unit_id, the text of the
  model's SQL and of the incremental tables and views it reads, and the thresholds in use.
  `drop_stale_builds` (a pre-hook) forgets builds that nothing current asks for;
  `missing_builds` lists the units to compute.

  The tables of all tokens, int_context_pairs and int_token_features, carry one id only, their
  unit's: `code_of` puts the text of their SQL into it where units are listed. They use
  `drop_stale_units` and `missing_units`.

  So plain `dbt run` computes an edited model anew, with all that reads it. A selection of the
  tables of all tokens without the units before them does not, and edits of macros are never
  seen: they want `dbt run --full-refresh`.
-#}

{% macro code_with_sources(node) -%}
    {{ node.raw_code }}
    {%- for id in node.depends_on.nodes | sort if id in graph.nodes -%}
        {%- if graph.nodes[id].config.materialized in ('incremental', 'view') -%}
            {{ code_with_sources(graph.nodes[id]) }}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro %}

{% macro code_of(name) -%}
    {%- if execute -%}
    '{{ local_md5(code_with_sources(graph.nodes['model.' ~ project_name ~ '.' ~ name])) }}'
    {%- else -%}
    ''
    {%- endif -%}
{%- endmacro %}

{% macro build_id(settings, id) -%}
    {%- if execute -%}
    hash(units.{{ id }}, '{{ local_md5(code_with_sources(model) ~ (settings | string)) }}')
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

{% macro missing_units(units, id='unit_id') -%}
    select * from {{ units }}
    {% if is_incremental() -%}
    where {{ id }} not in (select distinct {{ id }} from {{ this }})
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

{% macro drop_stale_units(units, id='unit_id') -%}
    {%- if is_incremental() -%}
    delete from {{ this }}
    where {{ id }} not in (select {{ id }} from {{ units }})
    {%- else -%}
    select 1
    {%- endif -%}
{%- endmacro %}
