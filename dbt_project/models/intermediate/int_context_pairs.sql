{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(ref('int_contexts')) }}",
) }}

with conditions as (
    {{ missing_partitions(ref('int_contexts')) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

short_context as (
    select
        conditions.problem,
        conditions.model_id,
        conditions.probe,
        conditions.full_probe,
        conditions.version,
        token_stats.doc_id,
        token_stats.position,
        token_stats.context_tokens,
        token_stats.logprob,
        token_stats.entropy,
        token_stats.rank
    from token_stats
    inner join conditions
        on token_stats.problem = conditions.problem
        and token_stats.model_id = conditions.model_id
        and token_stats.probe = conditions.probe
),

context_pairs as (
    select
        short_context.problem,
        short_context.model_id,
        short_context.probe,
        short_context.version,
        full_context.doc_id,
        full_context.position,
        full_context.context_tokens,
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
    from short_context
    inner join token_stats as full_context
        on short_context.problem = full_context.problem
        and short_context.model_id = full_context.model_id
        and short_context.full_probe = full_context.probe
        and short_context.doc_id = full_context.doc_id
        and short_context.position = full_context.position
)

select * from context_pairs
