{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_units(ref('int_tokenisations'), id = 'token_features_id') }}",
) }}

with units as (
    {{ missing_units(ref('int_tokenisations'), id = 'token_features_id') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

words as (
    select * from {{ ref('int_words') }}
),

tokens as (
    select
        units.token_features_id,
        token_stats.problem,
        token_stats.doc_id,
        token_stats.position,
        token_stats.char_start,
        token_stats.char_end - 1 as last_character
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
),

-- A token belongs to the word that holds its last character, if one does.
in_words as (
    select
        tokens.token_features_id,
        tokens.position,
        tokens.char_start <= words.char_start as is_first,
        words.char_start as word_start,
        words.previous_start,
        words.frequency,
        words.is_number,
        words.is_name
    from tokens
    asof inner join words
        on tokens.problem = words.problem
        and tokens.doc_id = words.doc_id
        and tokens.last_character >= words.char_start
    where tokens.last_character < words.char_end
),

word_positions as (
    select
        token_features_id,
        word_start,
        min(position) as position
    from in_words
    group by token_features_id, word_start
),

token_words as (
    select
        in_words.token_features_id,
        in_words.position,
        in_words.is_first,
        in_words.word_start,
        in_words.frequency as word_frequency,
        in_words.is_number,
        in_words.is_name,
        in_words.position - last_time.position as word_distance,
        in_words.word_start - in_words.previous_start as word_distance_characters
    from in_words
    left join word_positions as last_time
        on in_words.token_features_id = last_time.token_features_id
        and in_words.previous_start = last_time.word_start
)

select * from token_words
