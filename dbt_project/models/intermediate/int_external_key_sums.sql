{% set keys = ['problem', 'model_id', 'probe', 'evaluator'] %}

{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(
        ref('int_evaluations'),
        evaluator_edges(),
        ['problem', 'model_id', 'probe', 'evaluator']
    ) }}",
) }}

with conditions as (
    {{ missing_partitions(ref('int_evaluations'), evaluator_edges(), keys) }}
),

key_characters as (
    select * from {{ ref('int_key_characters') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

external_key_sums as (
    select
        conditions.problem,
        conditions.model_id,
        conditions.probe,
        conditions.evaluator,
        conditions.full_probe,
        conditions.version,
        key_characters.alpha,
        key_characters.beta,
        token_stats.doc_id,
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum
    from token_stats
    inner join conditions
        on token_stats.problem = conditions.problem
        and token_stats.model_id = conditions.model_id
        and token_stats.probe = conditions.full_probe
    inner join key_characters
        on conditions.problem = key_characters.problem
        and conditions.probe = key_characters.probe
        and conditions.evaluator = key_characters.evaluator
        and token_stats.doc_id = key_characters.doc_id
        and token_stats.char_start = key_characters.character
        and token_stats.char_end <= key_characters.interval_end
    group by all
)

select * from external_key_sums
