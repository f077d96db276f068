{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_pair_units'), thresholds = ['gamma', 'clip']) }}",
) }}

with units as (
    {{ missing_builds(ref('int_pair_units'), thresholds = ['gamma', 'clip']) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
    where {{ context_is_shorter() }}
),

-- A variant has one of the two.
ceilings as (
    select distinct
        gamma,
        clip
    from {{ ref('stg_metric_variants') }}
    where coalesce(gamma, clip) is not null
),

pairs as (
    select
        units.build_id,
        -cast(context_pairs.logprob as double) as nll,
        cast(context_pairs.logprob as double)
        - cast(context_pairs.short_logprob as double) as gain
    from context_pairs
    inner join units
        on context_pairs.unit_id = units.unit_id
),

sums as (
    select
        pairs.build_id,
        ceilings.gamma,
        ceilings.clip,
        count(*) as tokens,
        sum(least(exp(pairs.gain), ceilings.gamma)) filter (where ceilings.gamma is not null)
            as weight_sum,
        sum(least(exp(pairs.gain), ceilings.gamma) * pairs.nll)
        filter (where ceilings.gamma is not null) as weighted_nll_sum,
        sum(greatest(least(pairs.gain, ceilings.clip), -ceilings.clip))
        filter (where ceilings.clip is not null) as clipped_gain_sum
    from pairs
    cross join ceilings
    group by pairs.build_id, ceilings.gamma, ceilings.clip
),

weighted_gain_sums as (
    {{ with_unit_columns('sums') }}
)

select * from weighted_gain_sums
