{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_pair_units'), thresholds = ['quantile', 'trim']) }}",
) }}

with units as (
    {{ missing_builds(ref('int_pair_units'), thresholds = ['quantile', 'trim']) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
    where {{ context_is_shorter() }}
),

requested as (
    select distinct
        quantile,
        trim
    from {{ ref('stg_metric_variants') }}
    where metric = 'gain_quantile'
),

-- One sort per document serves every quantile and every trimmed mean.
sorted as (
    select
        units.build_id,
        count(*) as tokens,
        list_sort(
            list(
                cast(context_pairs.logprob as double)
                - cast(context_pairs.short_logprob as double)
            )
        ) as gains
    from context_pairs
    inner join units
        on context_pairs.unit_id = units.unit_id
    group by units.build_id
),

-- Quantiles interpolate between neighbours; a trimmed mean leaves out floor(trim × tokens)
-- values at either end.
placed as (
    select
        sorted.*,
        requested.quantile,
        requested.trim,
        (sorted.tokens - 1) * requested.quantile as place,
        cast(floor(sorted.tokens * requested.trim) as bigint) as dropped
    from sorted
    cross join requested
),

measured as (
    select
        build_id,
        tokens,
        quantile,
        trim,
        case
            when quantile is not null
                then gains[cast(floor(place) as bigint) + 1] * (1 - (place - floor(place)))
                    + gains[cast(ceil(place) as bigint) + 1] * (place - floor(place))
            else list_avg(gains[dropped + 1:tokens - dropped])
        end as value
    from placed
),

gain_quantiles as (
    {{ with_unit_columns('measured') }}
)

select * from gain_quantiles
