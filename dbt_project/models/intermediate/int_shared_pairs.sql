{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(ref('int_contexts')) }}",
) }}

with contexts as (
    {{ missing_partitions(ref('int_contexts')) }}
),

shared_spans as (
    select * from {{ ref('int_token_features') }}
    where shares_span
),

models as (
    select * from {{ ref('stg_models') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

shared_pairs as (
    select
        contexts.problem,
        contexts.model_id,
        contexts.probe,
        contexts.version,
        token_stats.doc_id,
        token_stats.position,
        shared_spans.cluster,
        token_stats.char_start,
        token_stats.char_end,
        -cast(token_stats.logprob as double) as nll,
        cast(token_stats.logprob as double)
        - cast(context_pairs.short_logprob as double) as gain
    from shared_spans
    inner join models
        on shared_spans.problem = models.problem
        and shared_spans.tokenizer_sha256 = models.tokenizer_sha256
    inner join contexts
        on models.problem = contexts.problem
        and models.model_id = contexts.model_id
    inner join token_stats
        on contexts.problem = token_stats.problem
        and contexts.model_id = token_stats.model_id
        and contexts.full_probe = token_stats.probe
        and shared_spans.doc_id = token_stats.doc_id
        and shared_spans.position = token_stats.position
    left join context_pairs
        on contexts.problem = context_pairs.problem
        and contexts.model_id = context_pairs.model_id
        and contexts.probe = context_pairs.probe
        and token_stats.doc_id = context_pairs.doc_id
        and token_stats.position = context_pairs.position
)

select * from shared_pairs
