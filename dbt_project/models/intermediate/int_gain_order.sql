{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_partitions(ref('int_contexts'), quantile_and_trim_edges()) }}",
) }}

with conditions as (
    {{ missing_partitions(ref('int_contexts'), quantile_and_trim_edges()) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

requested as (
    select distinct
        quantile,
        trim
    from {{ ref('stg_metric_variants') }}
    where coalesce(quantile, trim) is not null
),

-- One sort per document serves every quantile and every trimmed mean.
sorted as (
    select
        conditions.problem,
        conditions.model_id,
        conditions.probe,
        conditions.version,
        context_pairs.doc_id,
        count(*) as tokens,
        list_sort(
            list(
                cast(context_pairs.logprob as double)
                - cast(context_pairs.short_logprob as double)
            )
        ) as gains
    from context_pairs
    inner join conditions
        on context_pairs.problem = conditions.problem
        and context_pairs.model_id = conditions.model_id
        and context_pairs.probe = conditions.probe
    group by
        conditions.problem,
        conditions.model_id,
        conditions.probe,
        conditions.version,
        context_pairs.doc_id
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

gain_order as (
    select
        problem,
        model_id,
        probe,
        version,
        doc_id,
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
)

select * from gain_order
