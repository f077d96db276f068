{% set frequencies = frequency_edges() %}
{% set distances = distance_edges() %}

{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(
        ref('int_contexts'), [frequency_edges(), distance_edges()]
    ) }}",
) }}

with conditions as (
    {{ missing_partitions(ref('int_contexts'), [frequencies, distances]) }}
),

models as (
    select * from {{ ref('stg_models') }}
),

token_features as (
    select * from {{ ref('int_token_features') }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

pairs as (
    select
        conditions.problem,
        conditions.model_id,
        conditions.probe,
        conditions.version,
        context_pairs.doc_id,
        token_features.is_number,
        {{ frequency_band(frequencies) }} as frequency_ceiling,
        {{ distance_band('bigram_distance', distances) }} as bigram_distance_floor,
        {{ distance_band('fourgram_distance', distances) }} as fourgram_distance_floor,
        -cast(context_pairs.logprob as double) as nll,
        -cast(context_pairs.short_logprob as double) as short_nll
    from context_pairs
    inner join conditions
        on context_pairs.problem = conditions.problem
        and context_pairs.model_id = conditions.model_id
        and context_pairs.probe = conditions.probe
    inner join models
        on context_pairs.problem = models.problem
        and context_pairs.model_id = models.model_id
    inner join token_features
        on context_pairs.problem = token_features.problem
        and models.tokenizer_sha256 = token_features.tokenizer_sha256
        and context_pairs.doc_id = token_features.doc_id
        and context_pairs.position = token_features.position
),

feature_pair_sums as (
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
        sum(nll) as nll_sum,
        sum(short_nll) as short_nll_sum
    from pairs
    group by all
)

select * from feature_pair_sums
