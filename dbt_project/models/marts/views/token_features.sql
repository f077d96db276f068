with tokens as (
    select * from {{ ref('stg_token_stats') }}
),

units as (
    select * from {{ ref('int_full_units') }}
),

features as (
    select * from {{ ref('int_token_features') }}
),

words as (
    select * from {{ ref('int_words') }}
),

documents as (
    select * from {{ ref('stg_documents') }}
),

cut as (
    select
        problem,
        doc_id,
        regexp_extract_all(text, '(?s).{1,1000}') as texts
    from documents
),

pieces as (
    select
        problem,
        doc_id,
        unnest(range(len(texts))) as number,
        unnest(texts) as text
    from cut
),

-- Stretches of the text to count bytes in, without walking there from its beginning. Each goes on
-- into the next one: a token may begin in one and end in the other.
stretches as (
    select
        problem,
        doc_id,
        number,
        concat(
            text,
            lead(text) over (partition by problem, doc_id order by number)
        ) as text
    from pieces
),

token_features as (
    select
        tokens.problem,
        tokens.model_id,
        tokens.doc_id,
        tokens.position,
        tokens.token_id,
        tokens.char_start,
        tokens.char_end,
        tokens.char_end - tokens.char_start as characters,
        strlen(substring(
            stretches.text,
            tokens.char_start % 1000 + 1,
            tokens.char_end - tokens.char_start
        )) as bytes,
        words.word,
        features.word_frequency,
        features.is_first,
        features.is_number,
        features.is_name,
        features.word_distance,
        features.word_distance_characters,
        features.bigram_distance,
        features.fourgram_distance
    from tokens
    inner join units
        on {{ same_unit('tokens', 'units') }}
    inner join features
        on units.token_features_id = features.token_features_id
        and tokens.position = features.position
    left join words
        on units.problem = words.problem
        and units.doc_id = words.doc_id
        and features.word_start = words.char_start
    left join stretches
        on tokens.problem = stretches.problem
        and tokens.doc_id = stretches.doc_id
        and tokens.char_start // 1000 = stretches.number
)

select * from token_features
