{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_pair_units'), ids = ['unit_id', 'tokenisation_id']) }}",
) }}

with units as (
    {{ missing_builds(ref('int_pair_units'), ids = ['unit_id', 'tokenisation_id']) }}
),

clusters as (
    select
        token_features_id,
        position,
        sum(cast(opens_cluster as integer)) over (
            partition by token_features_id
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

full_context as (
    select
        units.build_id,
        units.unit_id,
        token_stats.position,
        clusters.cluster,
        token_stats.char_start,
        token_stats.char_end,
        cast(token_stats.logprob as double) as logprob
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units', 'long_condition') }}
    inner join clusters
        on units.token_features_id = clusters.token_features_id
        and token_stats.position = clusters.position
),

measured as (
    select
        full_context.build_id,
        full_context.position,
        full_context.cluster,
        full_context.char_start,
        full_context.char_end,
        -full_context.logprob as nll,
        full_context.logprob - cast(context_pairs.short_logprob as double) as gain
    from context_pairs
    right join full_context  -- noqa: CV08
        on context_pairs.unit_id = full_context.unit_id
        and context_pairs.position = full_context.position
),

overlapping_tokens as (
    {{ with_unit_columns('measured') }}
)

select * from overlapping_tokens
