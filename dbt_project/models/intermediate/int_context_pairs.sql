{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_units(ref('int_pair_units')) }}",
) }}

with units as (
    {{ missing_units(ref('int_pair_units')) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

short_context as (
    select
        units.unit_id,
        token_stats.*
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
),

full_context as (
    select
        units.unit_id,
        token_stats.*
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units', 'full_condition') }}
),

context_pairs as (
    select
        full_context.unit_id,
        full_context.position,
        short_context.context_tokens as short_context_tokens,
        full_context.token_id,
        full_context.char_start,
        full_context.char_end,
        full_context.logprob,
        short_context.logprob as short_logprob,
        full_context.entropy,
        short_context.entropy as short_entropy,
        full_context.rank,
        short_context.rank as short_rank
    from full_context
    inner join short_context
        on full_context.unit_id = short_context.unit_id
        and full_context.position = short_context.position
)

select * from context_pairs
