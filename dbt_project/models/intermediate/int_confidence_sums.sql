{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(ref('int_full_contexts'), confidence_bins()) }}",
) }}

with conditions as (
    {{ missing_partitions(ref('int_full_contexts'), confidence_bins()) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

tokens as (
    select
        conditions.problem,
        conditions.model_id,
        conditions.probe,
        conditions.version,
        token_stats.doc_id,
        token_stats.rank,
        exp(cast(token_stats.top_logprob as double)) as confidence
    from token_stats
    inner join conditions
        on token_stats.problem = conditions.problem
        and token_stats.model_id = conditions.model_id
        and token_stats.probe = conditions.probe
),

confidence_sums as (
    select
        problem,
        model_id,
        probe,
        version,
        doc_id,
        cast(
            least(floor(confidence * {{ confidence_bins() }}), {{ confidence_bins() }} - 1)
            as integer
        ) as bin,
        count(*) as tokens,
        sum(confidence) as confidence_sum,
        count(*) filter (where rank = 1) as top_1
    from tokens
    group by all
)

select * from confidence_sums
