{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_pair_units'), ids = ['unit_id', 'tokenisation_id'], thresholds = ['alpha', 'beta']
    ) }}",
) }}

with units as (
    {{ missing_builds(
        ref('int_pair_units'), ids = ['unit_id', 'tokenisation_id'], thresholds = ['alpha', 'beta']
    ) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
    where {{ context_is_shorter() }}
),

token_overlaps as (
    select * from {{ ref('int_token_overlaps') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

thresholds as (
    select distinct
        alpha,
        coalesce(beta, '-infinity') as beta
    from {{ ref('stg_metric_variants') }}
    where alpha is not null
),

passing as (
    select
        units.build_id,
        units.unit_id,
        units.tokenisation_id,
        thresholds.alpha,
        thresholds.beta,
        context_pairs.position,
        -cast(context_pairs.logprob as double) as nll,
        cast(context_pairs.logprob as double)
        - cast(context_pairs.short_logprob as double) as gain
    from context_pairs
    inner join thresholds
        on cast(context_pairs.logprob as double)
        - cast(context_pairs.short_logprob as double) > thresholds.alpha
        and cast(context_pairs.logprob as double) > thresholds.beta
    inner join units
        on context_pairs.unit_id = units.unit_id
),

-- Tokens inside the characters of a passing one that don't pass themselves: the pieces of one
-- character are key together.
beside as (
    select distinct
        passing.build_id,
        passing.alpha,
        passing.beta,
        token_overlaps.inner_position as position
    from passing
    inner join token_overlaps
        on passing.tokenisation_id = token_overlaps.tokenisation_id
        and passing.position = token_overlaps.position
    anti join passing as itself
        on passing.build_id = itself.build_id
        and passing.alpha = itself.alpha
        and passing.beta = itself.beta
        and token_overlaps.inner_position = itself.position
),

sums as (
    select
        build_id,
        alpha,
        beta,
        count(*) as tokens,
        sum(nll) as nll_sum,
        sum(gain) as gain_sum
    from passing
    group by build_id, alpha, beta
),

sums_beside as (
    select
        beside.build_id,
        beside.alpha,
        beside.beta,
        count(*) as tokens_beside,
        -sum(cast(token_stats.logprob as double)) as nll_beside
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units', 'long_condition') }}
    inner join beside
        on units.build_id = beside.build_id
        and token_stats.position = beside.position
    group by all
),

-- Every unit stays in, so that documents without key tokens say so.
key_sums as (
    select
        units.build_id,
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        units.document_tokens,
        thresholds.alpha,
        thresholds.beta,
        coalesce(sums.tokens, 0) as tokens,
        coalesce(sums.nll_sum, 0) as nll_sum,
        coalesce(sums.gain_sum, 0) as gain_sum,
        coalesce(sums_beside.tokens_beside, 0) as tokens_beside,
        coalesce(sums_beside.nll_beside, 0) as nll_beside
    from units
    cross join thresholds
    left join sums
        on units.build_id = sums.build_id
        and thresholds.alpha = sums.alpha
        and thresholds.beta = sums.beta
    left join sums_beside
        on units.build_id = sums_beside.build_id
        and thresholds.alpha = sums_beside.alpha
        and thresholds.beta = sums_beside.beta
)

select * from key_sums
