{{ config(materialized = 'table') }}

-- What selects a variant's chain of models selects its family's description as well.
-- depends_on: {{ ref('stg_metric_families') }}

with variants as (
    {{ variants_in_use() }}
),

typed as (
    select
        metric,
        variant,
        aggregation,
        core is not null as core,
        written,
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
        cast(clip as double) as clip,
        cast(quantile as double) as quantile,
        cast(trim as double) as trim,
        cast(bins as integer) as bins,
        cast(ngram as integer) as ngram,
        cast(from_distance as integer) as from_distance,
        cast(to_distance as integer) as to_distance,
        cast(max_frequency as integer) as max_frequency,
        word_kind,
        evaluator,
        statistic
    from variants
)

select * from typed
