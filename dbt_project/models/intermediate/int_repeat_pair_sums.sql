{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_pair_units'), ids = ['unit_id', 'tokenisation_id']) }}",
) }}

with units as (
    {{ missing_builds(ref('int_pair_units'), ids = ['unit_id', 'tokenisation_id']) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
    where {{ context_is_shorter() }}
),

token_repeats as (
    select * from {{ ref('int_token_repeats') }}
),

sums as (
    select
        units.build_id,
        {{ repeat_octaves('token_repeats') }},
        token_repeats.bigram_distance > context_pairs.short_context_tokens as bigram_is_beyond,
        token_repeats.fourgram_distance > context_pairs.short_context_tokens as fourgram_is_beyond,
        count(*) as tokens,
        -sum(cast(context_pairs.logprob as double)) as nll_sum,
        -sum(cast(context_pairs.short_logprob as double)) as short_nll_sum
    from context_pairs
    inner join units
        on context_pairs.unit_id = units.unit_id
    inner join token_repeats
        on units.tokenisation_id = token_repeats.tokenisation_id
        and context_pairs.position = token_repeats.position
    group by all
),

repeat_pair_sums as (
    {{ with_unit_columns('sums') }}
)

select * from repeat_pair_sums
