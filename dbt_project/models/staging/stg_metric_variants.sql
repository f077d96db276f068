{{ config(materialized = 'table') }}

with variants as (
    select * from {{ source('library', 'metric_variants') }}
),

typed as (
    select
        metric,
        variant,
        aggregation,
        coalesce(unit, 'token') as unit,
        coalesce(cast(min_tokens as bigint), 1) as min_tokens,
        cast(from_position as integer) as from_position,
        cast(to_position as integer) as to_position,
        cast(tail_tokens as integer) as tail_tokens,
        cast(from_share as double) as from_share,
        cast(to_share as double) as to_share,
        cast(alpha as double) as alpha,
        cast(beta as double) as beta,
        cast(gamma as double) as gamma,
        statistic
    from variants
)

select * from typed
