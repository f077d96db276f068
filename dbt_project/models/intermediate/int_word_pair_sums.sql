{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_pair_units'), ids = ['unit_id', 'token_features_id']) }}",
) }}

with units as (
    {{ missing_builds(ref('int_pair_units'), ids = ['unit_id', 'token_features_id']) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
    where {{ context_is_shorter() }}
),

token_words as (
    select * from {{ ref('int_token_words') }}
),

sums as (
    select
        units.build_id,
        {{ word_octaves('token_words') }},
        count(*) as tokens,
        -sum(cast(context_pairs.logprob as double)) as nll_sum,
        -sum(cast(context_pairs.short_logprob as double)) as short_nll_sum
    from context_pairs
    inner join units
        on context_pairs.unit_id = units.unit_id
    inner join token_words
        on units.token_features_id = token_words.token_features_id
        and context_pairs.position = token_words.position
    group by all
),

word_pair_sums as (
    {{ with_unit_columns('sums') }}
)

select * from word_pair_sums
