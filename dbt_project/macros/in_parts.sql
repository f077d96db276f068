{#-
  Builds a table of tokens by ranges of models with about `part_tokens` tokens each: one join of 10^9
  tokens spills more than 49 GB to the disk. The range is in two variables of the connection, which
  are null where one part is enough and where compiled SQL is run by hand. All parts are in one
  transaction: a metric never reads a table that lacks some of them.
-#}

{#- Condition on the column `model_id`: whether it is in the part. -#}
{% macro in_part() -%}
    (
        getvariable('first_model') is null
        or model_id between getvariable('first_model') and getvariable('last_model')
    )
{%- endmacro %}

{#- Before the table is built: choose its first part. -#}
{% macro choose_first_part() -%}
    {%- if execute -%}
        {%- set parts = parts_of_units(load_relation(this) and not should_full_refresh()) -%}
        {%- if parts | length > 1 -%}
            {%- do choose_part(parts[0]) -%}
        {%- endif -%}
    {%- endif -%}
{%- endmacro %}

{#- After its first part, in the same transaction: insert the units of each further part. -#}
{% macro build_further_parts() -%}
    {%- if execute and run_query("select getvariable('first_model')").columns[0].values()[0] -%}
        {%- for part in parts_of_units(is_some_built=true) -%}
            {%- do choose_part(part) -%}
            {%- do run_query('insert into ' ~ this ~ ' by name ' ~ compiled_code) -%}
        {%- endfor -%}
        {%- do run_query('reset variable first_model') -%}
        {%- do run_query('reset variable last_model') -%}
    {%- endif -%}
{%- endmacro %}

{%- macro choose_part(part) -%}
    {%- do run_query("set variable first_model = " ~ quoted(part[0])) -%}
    {%- do run_query("set variable last_model = " ~ quoted(part[1])) -%}
{%- endmacro -%}

{#- First and last model of each part: of all units, or of those that the table lacks. -#}
{%- macro parts_of_units(is_some_built) -%}
    {%- set is_new = 'true' -%}
    {%- if is_some_built -%}
        {%- set is_new = 'unit_id not in (select distinct built.unit_id from ' ~ this ~ ' as built)' -%}
    {%- endif -%}
    {%- set query -%}
        with models as (
            select
                model_id,
                sum(document_tokens) as tokens
            from {{ ref('token_units') }}
            where {{ is_new }}
            group by model_id
        ),

        parts as (
            select
                model_id,
                (sum(tokens) over (order by model_id) - tokens) // {{ var('part_tokens', 50000000) }} as part
            from models
        )

        select
            min(model_id) as first_model,
            max(model_id) as last_model
        from parts
        group by part
        order by part
    {%- endset -%}
    {%- do return(run_query(query).rows) -%}
{%- endmacro -%}
