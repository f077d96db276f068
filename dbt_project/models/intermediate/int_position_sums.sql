{% set positions = position_edges() %}
{% set tails = tail_edges() %}
{% set shares = share_edges() %}

{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_full_units'),
        [position_edges(), tail_edges(), share_edges()]
    ) }}",
) }}

with units as (
    {{ missing_builds(ref('int_full_units'), [positions, tails, shares]) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

text_blocks as (
    select * from {{ ref('int_text_blocks') }}
),

tokens as (
    select
        units.build_id,
        token_stats.position,
        {{ floor_edge('token_stats.position', positions, '>=', 0, 'bigint') }}
            as position_floor,
        {{ ceiling_edge('(units.document_tokens - token_stats.position)', tails, 2147483647) }}
            as tail_ceiling,
        {{ floor_edge('(token_stats.position / units.document_tokens)', shares, '>=', 0) }}
            as share_floor,
        log2(token_stats.position + 1) - 10 as log_position,
        -cast(token_stats.logprob as double) as nll,
        token_stats.entropy,
        token_stats.rank,
        token_stats.top_logprob,
        token_stats.char_start,
        token_stats.char_end
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
),

sums as (
    select
        build_id,
        position_floor,
        tail_ceiling,
        share_floor,
        count(*) as tokens,
        sum(nll) as nll_sum,
        sum(entropy) as entropy_sum,
        sum(top_logprob) as top_logprob_sum,
        cast(count_if(rank = 1) as bigint) as top_1,
        cast(count_if(rank <= 5) as bigint) as top_5,
        cast(count_if(rank <= 10) as bigint) as top_10,
        sum(1 / rank) as reciprocal_rank_sum,
        sum(log_position) as log_position_sum,
        -- products: a power takes ten times as long
        sum(log_position * log_position) as log_position_squared_sum,
        sum(log_position * log_position * log_position) as log_position_cubed_sum,
        sum((log_position * log_position) * (log_position * log_position))
            as log_position_fourth_power_sum,
        sum(log_position * nll) as log_position_nll_sum,
        sum(log_position * log_position * nll) as log_position_squared_nll_sum,
        min(position) as first_position,
        min(char_start) as first_character,
        max(char_end) as last_character
    from tokens
    group by build_id, position_floor, tail_ceiling, share_floor
),

spans as (
    select
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        units.document_tokens,
        sums.*,
        coalesce(
            max(sums.last_character) over (
                partition by sums.build_id
                order by sums.first_position
                rows between unbounded preceding and 1 preceding
            ),
            sums.first_character
        ) as span_start,
        max(sums.last_character) over (
            partition by sums.build_id
            order by sums.first_position
        ) as span_end
    from sums
    inner join units
        on sums.build_id = units.build_id
),

measured as (
    select
        spans.*,
        {{ bytes_before('spans.span_end', 'end_block') }}
        - ({{ bytes_before('spans.span_start', 'start_block') }}) as bytes
    from spans
    left join text_blocks as start_block
        on spans.problem = start_block.problem
        and spans.doc_id = start_block.doc_id
        and {{ block_start('spans.span_start') }} = start_block.first_character
    left join text_blocks as end_block
        on spans.problem = end_block.problem
        and spans.doc_id = end_block.doc_id
        and {{ block_start('spans.span_end') }} = end_block.first_character
),

position_sums as (
    select * exclude (first_position, first_character, last_character, span_start, span_end)
    from measured
)

select * from position_sums
