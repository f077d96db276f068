{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_full_units'), thresholds = ['quantile', 'worst_share']
    ) }}",
) }}

with units as (
    {{ missing_builds(ref('int_full_units'), thresholds = ['quantile', 'worst_share']) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

requested as (
    select distinct
        quantile,
        worst_share
    from {{ ref('stg_metric_variants') }}
    where metric = 'nll_quantile'
),

-- One sort per document serves every quantile and every share.
sorted as (
    select
        units.build_id,
        count(*) as tokens,
        list_sort(list(-cast(token_stats.logprob as double))) as nlls
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    group by units.build_id
),

-- Quantiles interpolate between neighbours; the worst share is rounded up to whole tokens.
placed as (
    select
        sorted.*,
        requested.quantile,
        requested.worst_share,
        (sorted.tokens - 1) * requested.quantile as place,
        cast(ceil(sorted.tokens * requested.worst_share) as bigint) as worst
    from sorted
    cross join requested
),

measured as (
    select
        build_id,
        tokens,
        quantile,
        worst_share,
        case
            when quantile is not null
                then nlls[cast(floor(place) as bigint) + 1] * (1 - (place - floor(place)))
                    + nlls[cast(ceil(place) as bigint) + 1] * (place - floor(place))
            else list_avg(nlls[tokens - worst + 1:tokens])
        end as value
    from placed
),

nll_quantiles as (
    {{ with_unit_columns('measured') }}
)

select * from nll_quantiles
