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
        coalesce(cast(min_document_tokens as bigint), 1) as min_document_tokens,
        cast(from_position as integer) as from_position,
        cast(to_position as integer) as to_position,
        cast(tail_tokens as integer) as tail_tokens,
        cast(from_share as double) as from_share,
        cast(to_share as double) as to_share,
        cast(from_character as integer) as from_character,
        cast(to_character as integer) as to_character,
        cast(tail_characters as integer) as tail_characters,
        cast(from_text_share as double) as from_text_share,
        cast(to_text_share as double) as to_text_share,
        cast(base_from_position as integer) as base_from_position,
        cast(base_to_position as integer) as base_to_position,
        cast(alpha as double) as alpha,
        cast(beta as double) as beta,
        cast(gamma as double) as gamma,
        cast(clip as double) as clip,
        cast(quantile as double) as quantile,
        cast(trim as double) as trim,
        cast(worst_share as double) as worst_share,
        cast(bins as integer) as bins,
        cast(ngram as integer) as ngram,
        cast(from_distance as integer) as from_distance,
        cast(to_distance as integer) as to_distance,
        cast(beyond_window as boolean) as beyond_window,
        cast(over_frequency as integer) as over_frequency,
        cast(max_frequency as integer) as max_frequency,
        occurrence,
        cast(first_of_word as boolean) as first_of_word,
        word_kind,
        evaluator,
        statistic
    from variants
),

with_regions as (
    select
        *,
        coalesce(
            nullif(
                concat_ws(
                    ' ',
                    'from position ' || from_position,
                    'to position ' || to_position,
                    'last ' || tail_tokens || ' tokens',
                    'from share ' || from_share,
                    'to share ' || to_share,
                    'from character ' || from_character,
                    'to character ' || to_character,
                    'last ' || tail_characters || ' characters',
                    'from text share ' || from_text_share,
                    'to text share ' || to_text_share
                ),
                ''
            ),
            'all'
        ) as region,
        'from position ' || base_from_position || ' to position ' || base_to_position
            as base_region
    from typed
)

select * from with_regions
