{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_full_units'), ids = ['unit_id', 'token_features_id']) }}",
) }}

with units as (
    {{ missing_builds(ref('int_full_units'), ids = ['unit_id', 'token_features_id']) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

token_words as (
    select * from {{ ref('int_token_words') }}
),

sums as (
    select
        units.build_id,
        {{ word_octaves('token_words') }},
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    inner join token_words
        on units.token_features_id = token_words.token_features_id
        and token_stats.position = token_words.position
    group by all
),

word_sums as (
    {{ with_unit_columns('sums') }}
)

select * from word_sums
