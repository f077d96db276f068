{#-
  The incremental part of `metric_of_tokens`: units and variants that the metric's table has are
  not computed again. Without it a run with nothing to do takes two thirds longer on 60 million
  rows. The column `definition` is the hash of a filter and its variants.
-#}

{#- Definitions of `scans` that the metric's table has rows of. -#}
{% macro definitions_built(scans) -%}
    {%- set built = [] -%}
    {%- if execute and model.resource_type == 'model'
        and not should_full_refresh() and load_relation(this)
        and 'definition' in adapter.get_columns_in_relation(this) | map(attribute='name') -%}
        {%- set found = run_query('select distinct definition from ' ~ this).columns[0].values() -%}
        {%- set built = scans | map(attribute='definition') | select('in', found) | list -%}
    {%- endif -%}
    {{- return(built) -}}
{%- endmacro %}

{#- Rows of the table that stay, and what is not in it: a unit that is new to a definition. -#}
{% macro kept_and_new_units(built) %}
-- Rows of the last build whose unit and definition are the present ones.
kept as (
    select * from {{ this }}
    where definition in ('{{ built | join("', '") }}')
        and unit_id in (select units.unit_id from units)
),

new_units as (
    select
        units.unit_id,
        definitions.definition
    from units
    cross join (select unnest(['{{ built | join("', '") }}']) as definition) as definitions
    except
    select
        unit_id,
        definition
    from kept
),
{%- endmacro %}
