{% set gains = gain_edges() %}
{% set logprobs = logprob_edges() %}

{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_pair_units'),
        [gain_edges(), logprob_edges()],
        ids = ['unit_id', 'tokenisation_id']
    ) }}",
) }}

with units as (
    {{ missing_builds(
        ref('int_pair_units'), [gains, logprobs], ids = ['unit_id', 'tokenisation_id']
    ) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

overlapping_positions as (
    select
        token_features_id,
        position
    from {{ ref('int_token_features') }}
    where shares_span
),

pairs as (
    select
        units.build_id,
        -cast(context_pairs.logprob as double) as nll,
        -cast(context_pairs.short_logprob as double) as short_nll,
        cast(context_pairs.logprob as double)
        - cast(context_pairs.short_logprob as double) as gain,
        context_pairs.char_end - context_pairs.char_start as characters,
        overlapping_positions.position is not null as shares_span
    from context_pairs
    inner join units
        on context_pairs.unit_id = units.unit_id
    left join overlapping_positions
        on units.token_features_id = overlapping_positions.token_features_id
        and context_pairs.position = overlapping_positions.position
),

banded as (
    select
        *,
        {{ floor_edge('gain', gains, '>', "'-infinity'") }} as gain_floor,
        {{ floor_edge('-nll', logprobs, '>', "'-infinity'") }} as logprob_floor
    from pairs
),

sums as (
    select
        build_id,
        gain_floor,
        logprob_floor,
        shares_span,
        count(*) as tokens,
        cast(count_if(gain > 0) as bigint) as tokens_with_gain,
        sum(nll) as nll_sum,
        sum(short_nll) as short_nll_sum,
        sum(gain) as gain_sum,
        sum(characters) as characters,
        sum(exp(gain)) as weight_sum,
        sum(exp(gain) * nll) as weighted_nll_sum
    from banded
    group by build_id, gain_floor, logprob_floor, shares_span
),

gain_sums as (
    {{ with_unit_columns('sums') }}
)

select * from gain_sums
