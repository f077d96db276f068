{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_full_units'),
        [frequency_edges(), distance_edges()],
        ids = ['unit_id', 'token_features_id']
    ) }}",
) }}

with units as (
    {{ missing_builds(
        ref('int_full_units'),
        [frequency_edges(), distance_edges()],
        ids = ['unit_id', 'token_features_id']
    ) }}
),

{{ banded_features() }},

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

tokens as (
    select
        units.build_id,
        banded_features.is_number,
        banded_features.frequency_ceiling,
        banded_features.bigram_distance_floor,
        banded_features.fourgram_distance_floor,
        -cast(token_stats.logprob as double) as nll
    from token_stats
    inner join numbered_units as units
        on {{ same_unit('token_stats', 'units') }}
    inner join banded_features
        on units.first_key + token_stats.position = banded_features.token_key
),

sums as (
    select
        build_id,
        is_number,
        frequency_ceiling,
        bigram_distance_floor,
        fourgram_distance_floor,
        count(*) as tokens,
        sum(nll) as nll_sum
    from tokens
    group by all
),

feature_sums as (
    {{ with_unit_columns('sums') }}
)

select * from feature_sums
