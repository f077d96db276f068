{{ config(
    materialized = 'incremental',
    pre_hook = [
        "{% if is_incremental() %}
            delete from {{ this }}
            where unit_id not in (select unit_id from {{ ref('token_units') }})
        {% endif %}",
        "{% if is_incremental() %}
            delete from {{ this }} where definition not in (
                '{{ variants(over = ['tokens', 'token_pairs']) | map(attribute = 'definition') | join(\"', '\") }}'
            )
        {% endif %}",
    ],
) }}

-- New units get every variant, units that were there get the new variants.
{%- set in_use = variants(over = ['tokens', 'token_pairs']) -%}
{%- set added = [] -%}
{%- if is_incremental() -%}
    {%- set built = run_query('select distinct definition from ' ~ this).columns[0].values() -%}
    {%- set added = in_use | rejectattr('definition', 'in', built) | list -%}
{%- endif %}

with units as (
    select * from {{ ref('token_units') }}
),

fct_tokens as (
    select * from {{ ref('fct_tokens') }}
),

{%- if is_incremental() %}

new_units as (
    select unit_id from units
    where unit_id not in (select distinct built.unit_id from {{ this }} as built)
),
{%- endif %}

tokens as (
    select * from fct_tokens
    where is_first_pair
        {%- if is_incremental() %}
        and unit_id in (select new_units.unit_id from new_units)
        {%- endif %}
),

token_pairs as (
    select * from fct_tokens
    where gain is not null
        {%- if is_incremental() %}
        and unit_id in (select new_units.unit_id from new_units)
        {%- endif %}
),

token_metrics as (
    {{ variant_sums(in_use, units = 'units', suffix = 'pair') }}
)

select * from token_metrics
{%- if added %}
union all
(
    with tokens as (
        select * from fct_tokens
        where is_first_pair
            and unit_id not in (select new_units.unit_id from new_units)
    ),

    token_pairs as (
        select * from fct_tokens
        where gain is not null
            and unit_id not in (select new_units.unit_id from new_units)
    )

    {{ variant_sums(added, units = 'units', suffix = 'pair') }}
)
{%- endif %}
