{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_builds(ref('int_tokenisations'), id = 'tokenisation_id') }}",
) }}

with units as (
    {{ missing_builds(ref('int_tokenisations'), id = 'tokenisation_id') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

words as (
    select * from {{ ref('int_words') }}
),

word_characters as (
    select
        problem,
        doc_id,
        frequency,
        is_number,
        cast(unnest(generate_series(char_start, char_end - 1)) as integer) as character
    from words
),

tokens as (
    select
        units.build_id,
        token_stats.position,
        token_stats.token_id,
        token_stats.char_start,
        token_stats.char_end
    from token_stats
    inner join units
        on token_stats.problem = units.problem
        and token_stats.model_id = units.model_id
        and token_stats.probe = units.probe
        and token_stats.doc_id = units.doc_id
),

-- Tokens share characters when their spans overlap, or when one of them is empty and they
-- touch.
neighbours as (
    select
        build_id,
        position,
        char_end - 1 as last_character,
        hash(build_id, token_id, lag(token_id, 1) over document) as bigram,
        hash(
            build_id,
            token_id,
            lag(token_id, 1) over document,
            lag(token_id, 2) over document,
            lag(token_id, 3) over document
        ) as fourgram,
        coalesce(
            char_start < lag(char_end) over document
            or (
                char_start = lag(char_end) over document
                and (
                    char_start = char_end
                    or lag(char_start) over document = lag(char_end) over document
                )
            ),
            false
        ) as shares_with_previous,
        coalesce(
            lead(char_start) over document < char_end
            or (
                lead(char_start) over document = char_end
                and (
                    char_start = char_end
                    or lead(char_start) over document = lead(char_end) over document
                )
            ),
            false
        ) as shares_with_next
    from tokens
    window document as (partition by build_id order by position)
),

repeats as (
    select
        build_id,
        position,
        last_character,
        not shares_with_previous as opens_cluster,
        shares_with_previous or shares_with_next as shares_span,
        position - lag(position) over same_bigram as bigram_distance,
        position - lag(position) over same_fourgram as fourgram_distance
    from neighbours
    window
        same_bigram as (partition by bigram order by position),
        same_fourgram as (partition by fourgram order by position)
),

-- A token belongs to the word that holds its last character.
token_features as (
    select
        repeats.build_id,
        units.tokenisation_id,
        repeats.position,
        repeats.opens_cluster,
        repeats.shares_span,
        repeats.bigram_distance,
        repeats.fourgram_distance,
        word_characters.frequency as word_frequency,
        coalesce(word_characters.is_number, false) as is_number
    from repeats
    inner join units
        on repeats.build_id = units.build_id
    left join word_characters
        on units.problem = word_characters.problem
        and units.doc_id = word_characters.doc_id
        and repeats.last_character = word_characters.character
)

select * from token_features
