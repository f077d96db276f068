{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_full_units')) }}",
) }}

with units as (
    {{ missing_builds(ref('int_full_units')) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

tokens as (
    select
        units.build_id,
        token_stats.rank,
        exp(cast(token_stats.top_logprob as double)) as confidence
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
),

sums as (
    select
        build_id,
        cast(
            least(floor(confidence * {{ confidence_bins() }}), {{ confidence_bins() }} - 1)
            as integer
        ) as bin,
        count(*) as tokens,
        sum(confidence) as confidence_sum,
        cast(count_if(rank = 1) as bigint) as top_1
    from tokens
    group by build_id, bin
),

confidence_sums as (
    {{ with_unit_columns('sums') }}
)

select * from confidence_sums
