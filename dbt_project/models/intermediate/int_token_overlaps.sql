{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_units(ref('int_tokenisations'), id = 'tokenisation_id') }}",
) }}

with units as (
    {{ missing_units(ref('int_tokenisations'), id = 'tokenisation_id') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

tokens as (
    select
        units.tokenisation_id,
        token_stats.position,
        token_stats.char_start,
        token_stats.char_end
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
),

-- Spans begin and end in the order of the tokens: where one lies inside another one, neighbours
-- begin or end together.
suspects as (
    select * from tokens
    window document as (partition by tokenisation_id order by position)
    qualify char_start = lag(char_start) over document
        or char_end = lag(char_end) over document
        or char_start = lead(char_start) over document
        or char_end = lead(char_end) over document
),

-- A character has at most four bytes, so its pieces are near each other.
offsets as (
    select unnest(range(-8, 9)) as tokens_further
),

token_overlaps as (
    select
        suspects.tokenisation_id,
        suspects.position,
        inside.position as inner_position
    from suspects
    cross join offsets
    inner join suspects as inside
        on suspects.tokenisation_id = inside.tokenisation_id
        and suspects.position + offsets.tokens_further = inside.position
    where offsets.tokens_further != 0
        and suspects.char_start <= inside.char_start
        and suspects.char_end >= inside.char_end
)

select * from token_overlaps
