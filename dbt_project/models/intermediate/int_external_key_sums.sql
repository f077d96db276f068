{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_evaluated_units'),
        ids = ['unit_id', 'key_characters_id'],
        thresholds = ['if(evaluator is null, null, (evaluator, alpha, beta))']
    ) }}",
) }}

with units as (
    {{ missing_builds(
        ref('int_evaluated_units'),
        ids = ['unit_id', 'key_characters_id'],
        thresholds = ['if(evaluator is null, null, (evaluator, alpha, beta))']
    ) }}
),

key_characters as (
    select * from {{ ref('int_key_characters') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

sums as (
    select
        units.build_id,
        units.evaluator,
        key_characters.alpha,
        key_characters.beta,
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units', 'full_condition') }}
    inner join key_characters
        on units.key_characters_id = key_characters.key_characters_id
        and token_stats.char_start = key_characters.character
        and token_stats.char_end <= key_characters.interval_end
    group by all
),

external_key_sums as (
    {{ with_unit_columns('sums') }}
)

select * from external_key_sums
