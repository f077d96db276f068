{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_units(ref('int_tokenisations'), id = 'token_features_id') }}",
) }}

with units as (
    {{ missing_units(ref('int_tokenisations'), id = 'token_features_id') }}
),

numbered_units as (
    select
        *,
        {{ first_key('token_features_id') }} as first_key,
        {{ first_key('problem, doc_id') }} as first_character_key
    from units
),

documents as (
    select distinct
        problem,
        doc_id,
        first_character_key
    from numbered_units
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

words as (
    select * from {{ ref('int_words') }}
),

word_characters as (
    select
        documents.first_character_key
        + unnest(generate_series(words.char_start, words.char_end - 1)) as character_key,
        words.frequency,
        words.is_number
    from words
    inner join documents
        on words.problem = documents.problem
        and words.doc_id = documents.doc_id
),

tokens as (
    select
        units.first_key,
        units.first_key + token_stats.position as token_key,
        units.first_character_key,
        token_stats.token_id,
        token_stats.char_start,
        token_stats.char_end
    from token_stats
    inner join numbered_units as units
        on {{ same_unit('token_stats', 'units') }}
),

-- Tokens share characters when their spans overlap, or when one of them is empty and they
-- touch.
neighbours as (
    select
        token_key,
        first_character_key + char_end - 1 as last_character_key,
        hash(first_key, token_id, lag(token_id, 1) over document) as bigram,
        hash(
            first_key,
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
    window document as (partition by first_key order by token_key)
),

-- Hashes of two documents may collide: their distance is no integer and becomes null.
bigrams as (
    select
        token_key,
        last_character_key,
        fourgram,
        not shares_with_previous as opens_cluster,
        shares_with_previous or shares_with_next as shares_span,
        try_cast(token_key - lag(token_key) over same_bigram as integer) as bigram_distance,
        lead(token_key) over same_bigram is not null as occurs_again
    from neighbours
    window same_bigram as (partition by bigram order by token_key)
),

-- Only tokens whose 2-gram repeats can have a 4-gram that does: half of a text, or less.
fourgrams as (
    select
        token_key,
        try_cast(token_key - lag(token_key) over same_fourgram as integer) as fourgram_distance
    from bigrams
    where occurs_again or bigram_distance is not null
    window same_fourgram as (partition by fourgram order by token_key)
),

repeated_fourgrams as (
    select * from fourgrams
    where fourgram_distance is not null
),

-- A token belongs to the word that holds its last character.
with_words as (
    select
        bigrams.token_key,
        bigrams.opens_cluster,
        bigrams.shares_span,
        bigrams.bigram_distance,
        repeated_fourgrams.fourgram_distance,
        word_characters.frequency as word_frequency,
        coalesce(word_characters.is_number, false) as is_number
    from bigrams
    left join repeated_fourgrams
        on bigrams.token_key = repeated_fourgrams.token_key
    left join word_characters
        on bigrams.last_character_key = word_characters.character_key
),

-- In the order of the text: readers who go through documents in order find neighbours together.
token_features as (
    select
        units.token_features_id,
        {{ key_position('with_words.token_key') }} as position,
        with_words.opens_cluster,
        with_words.shares_span,
        with_words.bigram_distance,
        with_words.fourgram_distance,
        with_words.word_frequency,
        with_words.is_number
    from with_words
    inner join numbered_units as units
        on {{ key_start('with_words.token_key') }} = units.first_key
    order by with_words.token_key
)

select * from token_features
