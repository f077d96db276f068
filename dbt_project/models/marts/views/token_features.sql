with features as (
    select * from {{ ref('int_token_features') }}
),

units as (
    select * from {{ ref('int_full_units') }}
),

token_features as (
    select
        units.problem,
        units.model_id,
        units.doc_id,
        features.position,
        features.word,
        features.word_frequency,
        features.is_first,
        features.is_number,
        features.is_name,
        features.word_distance,
        features.word_distance_characters,
        features.bigram_distance,
        features.fourgram_distance
    from features
    inner join units
        on features.token_features_id = units.token_features_id
)

select * from token_features
