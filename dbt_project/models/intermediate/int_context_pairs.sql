{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_units(ref('int_pair_units')) }}",
) }}

with units as (
    {{ missing_units(ref('int_pair_units')) }}
),

-- Read twice, each time with a filter of its own: one copy in memory would hold every token.
token_stats as not materialized (
    select * from {{ ref('stg_token_stats') }}
),

short_context as (
    select
        units.unit_id,
        token_stats.*
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units', 'short_condition') }}
),

long_context as (
    select
        units.unit_id,
        token_stats.*
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units', 'long_condition') }}
),

context_pairs as (
    select
        long_context.unit_id,
        long_context.position,
        long_context.context_tokens,
        short_context.context_tokens as short_context_tokens,
        long_context.token_id,
        long_context.char_start,
        long_context.char_end,
        long_context.logprob,
        short_context.logprob as short_logprob,
        long_context.entropy,
        short_context.entropy as short_entropy,
        long_context.rank,
        short_context.rank as short_rank
    from long_context
    inner join short_context
        on long_context.unit_id = short_context.unit_id
        and long_context.position = short_context.position
)

select * from context_pairs
