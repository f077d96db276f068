{% set frequencies = frequency_edges() %}
{% set distances = distance_edges() %}

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
        [frequencies, distances],
        ids = ['unit_id', 'token_features_id']
    ) }}
),

{{ banded_features(frequencies, distances) }},

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
        on token_stats.problem = units.problem
        and token_stats.model_id = units.model_id
        and token_stats.condition = units.condition
        and token_stats.doc_id = units.doc_id
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
    group by
        build_id,
        is_number,
        frequency_ceiling,
        bigram_distance_floor,
        fourgram_distance_floor
),

feature_sums as (
    select
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        units.document_tokens,
        sums.*
    from sums
    inner join units
        on sums.build_id = units.build_id
)

select * from feature_sums
