{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_full_units'), ids = ['unit_id', 'tokenisation_id']) }}",
) }}

with units as (
    {{ missing_builds(ref('int_full_units'), ids = ['unit_id', 'tokenisation_id']) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

token_repeats as (
    select * from {{ ref('int_token_repeats') }}
),

sums as (
    select
        units.build_id,
        {{ repeat_octaves('token_repeats') }},
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    left join token_repeats
        on units.tokenisation_id = token_repeats.tokenisation_id
        and token_stats.position = token_repeats.position
    group by all
),

repeat_sums as (
    {{ with_unit_columns('sums') }}
)

select * from repeat_sums
