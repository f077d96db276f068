{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_pair_units'), id = 'spanned_unit_id') }}",
) }}

with units as (
    {{ missing_builds(ref('int_pair_units'), id = 'spanned_unit_id') }}
),

shared_spans as (
    select
        tokenisation_id,
        position,
        sum(cast(opens_cluster as integer)) over (
            partition by tokenisation_id
            order by position
        ) as cluster
    from {{ ref('int_token_features') }}
    where shares_span
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

shared_tokens as (
    select
        units.build_id,
        units.unit_id,
        token_stats.position,
        shared_spans.cluster,
        token_stats.char_start,
        token_stats.char_end,
        cast(token_stats.logprob as double) as logprob
    from token_stats
    inner join units
        on token_stats.problem = units.problem
        and token_stats.model_id = units.model_id
        and token_stats.condition = units.full_probe
        and token_stats.doc_id = units.doc_id
    inner join shared_spans
        on units.tokenisation_id = shared_spans.tokenisation_id
        and token_stats.position = shared_spans.position
),

measured as (
    select
        shared_tokens.build_id,
        shared_tokens.position,
        shared_tokens.cluster,
        shared_tokens.char_start,
        shared_tokens.char_end,
        -shared_tokens.logprob as nll,
        shared_tokens.logprob - cast(context_pairs.short_logprob as double) as gain
    from context_pairs
    right join shared_tokens  -- noqa: CV08
        on context_pairs.unit_id = shared_tokens.unit_id
        and context_pairs.position = shared_tokens.position
),

shared_pairs as (
    select
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        units.document_tokens,
        measured.*
    from measured
    inner join units
        on measured.build_id = units.build_id
)

select * from shared_pairs
