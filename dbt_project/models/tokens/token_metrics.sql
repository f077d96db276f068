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

-- Numerator, denominator and count of tokens per unit (model, document, short context) and variant.
-- For the row of variants/perplexity.csv that is called micro, `variant_sums` writes
--     select unit_id, sum(nll) as numerator, count(*) as denominator from tokens group by unit_id
-- `tokens` is the CTE below, not the source: each token of the full context once, also those that no
-- short context scored. `token_pairs`: tokens scored in both contexts, with less text before them in
-- the short one.
-- New units get every variant; units of earlier builds get the variants added since.
{%- set in_use = variants(over = ['tokens', 'token_pairs']) -%}
{%- set added, is_new = [], 'true' -%}
{%- if is_incremental() -%}
    {%- set is_new = 'unit_id in (select new_units.unit_id from new_units)' -%}
    {%- set built = run_query('select distinct definition from ' ~ this).columns[0].values() -%}
    {%- set added = in_use | rejectattr('definition', 'in', built) | list -%}
{%- endif %}

with units as (
    select * from {{ ref('token_units') }}
),

-- Read twice, each time with a filter of its own: one copy in memory would contain every token.
fct_tokens as not materialized (
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
    where is_first_pair and {{ is_new }}
),

token_pairs as (
    select * from fct_tokens
    where gain is not null and {{ is_new }}
),

token_metrics as (
    {{ variant_sums(in_use, units = 'units', suffix = 'pair') }}
)

select * from token_metrics
{%- if added %}
union all
-- the same sums for units of earlier builds
(
    with tokens as (
        select * from fct_tokens
        where is_first_pair and not {{ is_new }}
    ),

    token_pairs as (
        select * from fct_tokens
        where gain is not null and not {{ is_new }}
    )

    {{ variant_sums(added, units = 'units', suffix = 'pair') }}
)
{%- endif %}
