{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_full_units'), confidence_bins()) }}",
) }}

with units as (
    {{ missing_builds(ref('int_full_units'), confidence_bins()) }}
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
        on token_stats.problem = units.problem
        and token_stats.model_id = units.model_id
        and token_stats.condition = units.condition
        and token_stats.doc_id = units.doc_id
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
    select
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        units.document_tokens,
        sums.*
    from sums
    inner join units
        on sums.build_id = units.build_id
)

select * from confidence_sums
