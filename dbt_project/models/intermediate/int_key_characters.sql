{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(
        ref('int_evaluator_units'),
        ids = ['key_characters_id'],
        thresholds = ['if(evaluator is null, null, (evaluator, alpha, beta))']
    ) }}",
) }}

with units as (
    {{ missing_builds(
        ref('int_evaluator_units'),
        ids = ['key_characters_id'],
        thresholds = ['if(evaluator is null, null, (evaluator, alpha, beta))']
    ) }}
),

variants as (
    select distinct
        evaluator,
        alpha,
        beta
    from {{ ref('stg_metric_variants') }}
    where evaluator is not null
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
    where {{ context_is_shorter() }}
),

key_tokens as (
    select
        units.build_id,
        variants.alpha,
        variants.beta,
        context_pairs.position,
        context_pairs.char_start,
        context_pairs.char_end,
        lag(context_pairs.char_end) over (
            partition by units.build_id, variants.alpha, variants.beta
            order by context_pairs.position
        ) as previous_end
    from context_pairs
    inner join units
        on context_pairs.unit_id = units.evaluator_unit_id
    inner join variants
        on units.evaluator = variants.evaluator
        and cast(context_pairs.logprob as double)
        - cast(context_pairs.short_logprob as double) > variants.alpha
        and cast(context_pairs.logprob as double) > variants.beta
),

-- Touching key tokens form one interval, as in the paper's code.
numbered as (
    select
        *,
        count(*) filter (where char_start is distinct from previous_end) over (
            partition by build_id, alpha, beta
            order by position
        ) as interval_number
    from key_tokens
),

intervals as (
    select
        build_id,
        alpha,
        beta,
        min(char_start) as interval_start,
        max(char_end) as interval_end
    from numbered
    group by build_id, alpha, beta, interval_number
),

characters as (
    select
        build_id,
        alpha,
        beta,
        interval_end,
        unnest(generate_series(interval_start, interval_end)) as character
    from intervals
),

-- One row per character, with the furthest end of an interval that holds it.
furthest as (
    select
        build_id,
        alpha,
        beta,
        cast(character as integer) as character,
        max(interval_end) as interval_end
    from characters
    group by build_id, alpha, beta, character
),

key_characters as (
    select
        units.key_characters_id,
        furthest.*
    from furthest
    inner join units
        on furthest.build_id = units.build_id
)

select * from key_characters
