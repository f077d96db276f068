{{ config(materialized = 'view') }}

with tokenisations as (
    select * from {{ ref('int_tokenisations') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

token_words as (
    select * from {{ ref('int_token_words') }}
),

token_repeats as (
    select * from {{ ref('int_token_repeats') }}
),

token_features as (
    select
        tokenisations.token_features_id,
        token_stats.position,
        token_words.word_start,
        coalesce(token_words.is_first, false) as is_first,
        token_words.word_frequency,
        coalesce(token_words.is_number, false) as is_number,
        coalesce(token_words.is_name, false) as is_name,
        token_words.word_distance,
        token_words.word_distance_characters,
        token_repeats.bigram_distance,
        token_repeats.fourgram_distance
    from token_stats
    inner join tokenisations
        on {{ same_unit('token_stats', 'tokenisations') }}
    left join token_words
        on tokenisations.token_features_id = token_words.token_features_id
        and token_stats.position = token_words.position
    left join token_repeats
        on tokenisations.tokenisation_id = token_repeats.tokenisation_id
        and token_stats.position = token_repeats.position
)

select * from token_features
