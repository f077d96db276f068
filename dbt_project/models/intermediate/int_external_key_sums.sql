{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_evaluated_units'),
        evaluator_edges(),
        ids = ['unit_id', 'key_characters_id']
    ) }}",
) }}

with units as (
    {{ missing_builds(
        ref('int_evaluated_units'), evaluator_edges(), ids = ['unit_id', 'key_characters_id']
    ) }}
),

key_characters as (
    select * from {{ ref('int_key_characters') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

sums as (
    select
        units.build_id,
        key_characters.alpha,
        key_characters.beta,
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum
    from token_stats
    inner join units
        on token_stats.problem = units.problem
        and token_stats.model_id = units.model_id
        and token_stats.condition = units.full_condition
        and token_stats.doc_id = units.doc_id
    inner join key_characters
        on units.key_characters_id = key_characters.key_characters_id
        and token_stats.char_start = key_characters.character
        and token_stats.char_end <= key_characters.interval_end
    group by units.build_id, key_characters.alpha, key_characters.beta
),

external_key_sums as (
    select
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        units.document_tokens,
        units.evaluator,
        sums.*
    from sums
    inner join units
        on sums.build_id = units.build_id
)

select * from external_key_sums
