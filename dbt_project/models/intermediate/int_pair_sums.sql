{% set positions = position_edges() %}
{% set shares = share_edges() %}

{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_pair_units'), [position_edges(), share_edges()]) }}",
) }}

with units as (
    {{ missing_builds(ref('int_pair_units'), [positions, shares]) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

pairs as (
    select
        units.build_id,
        {{ floor_edge('context_pairs.position', positions, '>=', 0, 'bigint') }}
            as position_floor,
        {{ floor_edge('(context_pairs.position / units.document_tokens)', shares, '>=', 0) }}
            as share_floor,
        -cast(context_pairs.logprob as double) as nll,
        -cast(context_pairs.short_logprob as double) as short_nll,
        context_pairs.entropy,
        context_pairs.short_entropy,
        context_pairs.rank,
        context_pairs.short_rank
    from context_pairs
    inner join units
        on context_pairs.unit_id = units.unit_id
),

sums as (
    select
        build_id,
        position_floor,
        share_floor,
        count(*) as tokens,
        cast(count_if(short_nll > nll) as bigint) as tokens_with_gain,
        sum(nll) as nll_sum,
        sum(short_nll) as short_nll_sum,
        sum(entropy) as entropy_sum,
        sum(short_entropy) as short_entropy_sum,
        cast(count_if(rank = 1) as bigint) as top_1,
        cast(count_if(short_rank = 1) as bigint) as short_top_1,
        cast(count_if(rank <= 5) as bigint) as top_5,
        cast(count_if(short_rank <= 5) as bigint) as short_top_5,
        sum(1 / rank) as reciprocal_rank_sum,
        sum(1 / short_rank) as short_reciprocal_rank_sum
    from pairs
    group by build_id, position_floor, share_floor
),

pair_sums as (
    {{ with_unit_columns('sums') }}
)

select * from pair_sums
