{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_pair_units'),
        [frequency_edges(), distance_edges()],
        ids = ['unit_id', 'token_features_id']
    ) }}",
) }}

with units as (
    {{ missing_builds(
        ref('int_pair_units'),
        [frequency_edges(), distance_edges()],
        ids = ['unit_id', 'token_features_id']
    ) }}
),

{{ banded_features() }},

-- No variant asks for the gain of other tokens.
featured_tokens as (
    select * from banded_features
    where is_number
        or frequency_ceiling < 2147483647
        or bigram_distance_floor is not null
        or fourgram_distance_floor is not null
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

tokens as (
    select
        units.build_id,
        featured_tokens.is_number,
        featured_tokens.frequency_ceiling,
        featured_tokens.bigram_distance_floor,
        featured_tokens.fourgram_distance_floor,
        -cast(context_pairs.logprob as double) as nll,
        -cast(context_pairs.short_logprob as double) as short_nll
    from context_pairs
    inner join numbered_units as units
        on context_pairs.unit_id = units.unit_id
    inner join featured_tokens
        on units.first_key + context_pairs.position = featured_tokens.token_key
),

sums as (
    select
        build_id,
        is_number,
        frequency_ceiling,
        bigram_distance_floor,
        fourgram_distance_floor,
        count(*) as tokens,
        sum(nll) as nll_sum,
        sum(short_nll) as short_nll_sum
    from tokens
    group by all
),

feature_pair_sums as (
    {{ with_unit_columns('sums') }}
)

select * from feature_pair_sums
