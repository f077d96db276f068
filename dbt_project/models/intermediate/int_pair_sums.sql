{% set positions = position_edges() %}
{% set shares = share_edges() %}

{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(
        ref('int_contexts'), [position_edges(), share_edges()]
    ) }}",
) }}

with conditions as (
    {{ missing_partitions(ref('int_contexts'), [positions, shares]) }}
),

document_lengths as (
    select * from {{ ref('int_document_lengths') }}
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
        {{ floor_edge('context_pairs.position', positions, '>=', 0, 'bigint') }}
            as position_floor,
        {{ floor_edge('(context_pairs.position / document_lengths.document_tokens)',
            shares, '>=', 0) }} as share_floor,
        -cast(context_pairs.logprob as double) as nll,
        -cast(context_pairs.short_logprob as double) as short_nll,
        context_pairs.entropy,
        context_pairs.short_entropy,
        context_pairs.rank,
        context_pairs.short_rank
    from context_pairs
    inner join conditions
        on context_pairs.problem = conditions.problem
        and context_pairs.model_id = conditions.model_id
        and context_pairs.probe = conditions.probe
    inner join document_lengths
        on context_pairs.problem = document_lengths.problem
        and context_pairs.model_id = document_lengths.model_id
        and conditions.full_probe = document_lengths.probe
        and context_pairs.doc_id = document_lengths.doc_id
),

pair_sums as (
    select
        problem,
        model_id,
        probe,
        version,
        doc_id,
        position_floor,
        share_floor,
        count(*) as tokens,
        count(*) filter (where short_nll > nll) as tokens_with_gain,
        sum(nll) as nll_sum,
        sum(short_nll) as short_nll_sum,
        sum(entropy) as entropy_sum,
        sum(short_entropy) as short_entropy_sum,
        count(*) filter (where rank = 1) as top_1,
        count(*) filter (where short_rank = 1) as short_top_1,
        count(*) filter (where rank <= 5) as top_5,
        count(*) filter (where short_rank <= 5) as short_top_5,
        sum(1 / rank) as reciprocal_rank_sum,
        sum(1 / short_rank) as short_reciprocal_rank_sum
    from pairs
    group by
        problem,
        model_id,
        probe,
        version,
        doc_id,
        position_floor,
        share_floor
)

select * from pair_sums
