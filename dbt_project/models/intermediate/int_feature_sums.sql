{% set frequencies = frequency_edges() %}
{% set distances = distance_edges() %}

{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(
        ref('int_full_contexts'), [frequency_edges(), distance_edges()]
    ) }}",
) }}

with conditions as (
    {{ missing_partitions(ref('int_full_contexts'), [frequencies, distances]) }}
),

models as (
    select * from {{ ref('stg_models') }}
),

token_features as (
    select * from {{ ref('int_token_features') }}
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
        token_features.is_number,
        {{ frequency_band(frequencies) }} as frequency_ceiling,
        {{ distance_band('bigram_distance', distances) }} as bigram_distance_floor,
        {{ distance_band('fourgram_distance', distances) }} as fourgram_distance_floor,
        -cast(token_stats.logprob as double) as nll
    from token_stats
    inner join conditions
        on token_stats.problem = conditions.problem
        and token_stats.model_id = conditions.model_id
        and token_stats.probe = conditions.probe
    inner join models
        on token_stats.problem = models.problem
        and token_stats.model_id = models.model_id
    inner join token_features
        on token_stats.problem = token_features.problem
        and models.tokenizer_sha256 = token_features.tokenizer_sha256
        and token_stats.doc_id = token_features.doc_id
        and token_stats.position = token_features.position
),

feature_sums as (
    select
        problem,
        model_id,
        probe,
        version,
        doc_id,
        is_number,
        frequency_ceiling,
        bigram_distance_floor,
        fourgram_distance_floor,
        count(*) as tokens,
        sum(nll) as nll_sum
    from tokens
    group by all
)

select * from feature_sums
