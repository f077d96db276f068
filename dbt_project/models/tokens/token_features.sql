{{ config(
    materialized = 'incremental',
    pre_hook = "{% if is_incremental() %}
        delete from {{ this }}
        where tokenization_id not in (select tokenization_id from {{ ref('token_units') }})
    {% endif %}",
) }}

with units as (
    select distinct on (tokenization_id) *
    from {{ ref('token_units') }}
    where is_tokenization
    {%- if is_incremental() %}
        and tokenization_id not in (select distinct tokenization_id from {{ this }})
    {%- endif %}
    {%- if var('models', none) %}
        and tokenization_id in (
            select tokenization_id from {{ ref('token_units') }}
            where is_evaluator or model_id in ('{{ var('models') | join("', '") }}')
        )
    {%- endif %}
),

all_tokens as (
    select * from {{ source('extract', 'tokens') }}
),

documents as (
    select * from {{ source('extract', 'documents') }}
),

words as (
    select * from {{ ref('words') }}
),

tokens as (
    select
        units.tokenization_id,
        units.tokenizer_sha256,
        all_tokens.problem,
        all_tokens.doc_id,
        all_tokens.position,
        all_tokens.token_id,
        all_tokens.char_start,
        all_tokens.char_end
    from all_tokens
    inner join units
        on all_tokens.problem = units.problem
        and all_tokens.model_id = units.model_id
        and all_tokens.condition = units.condition
        and all_tokens.doc_id = units.doc_id
),

-- Bytes before a character are counted from the beginning of its stretch of 200 characters.
cut as (
    select
        problem,
        doc_id,
        regexp_extract_all(text, '(?s).{1,200}') as texts
    from documents
),

stretches as (
    select
        problem,
        doc_id,
        number,
        text,
        strlen(text) = length(text) as is_ascii,
        coalesce(
            sum(strlen(text)) over (
                partition by problem, doc_id
                order by number
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as bytes_before
    from (
        select
            problem,
            doc_id,
            unnest(range(len(texts) + 1)) as number,
            unnest(list_append(texts, '')) as text
        from cut
    )
),

with_bytes as (
    select
        tokens.*,
        cast(
            at_start.bytes_before + if(
                at_start.is_ascii,
                tokens.char_start % 200,
                strlen(left(at_start.text, tokens.char_start % 200))
            ) as integer
        ) as byte_start,
        cast(
            at_end.bytes_before + if(
                at_end.is_ascii,
                tokens.char_end % 200,
                strlen(left(at_end.text, tokens.char_end % 200))
            ) as integer
        ) as byte_end
    from tokens
    left join stretches as at_start
        on tokens.problem = at_start.problem
        and tokens.doc_id = at_start.doc_id
        and tokens.char_start // 200 = at_start.number
    left join stretches as at_end
        on tokens.problem = at_end.problem
        and tokens.doc_id = at_end.doc_id
        and tokens.char_end // 200 = at_end.number
),

-- Pieces of one character have its span: such a token begins or ends where a neighbour does.
neighbours as (
    select
        *,
        max(byte_end) over (
            document
            rows between unbounded preceding and 1 preceding
        ) as bytes_covered,
        coalesce(
            char_start = lag(char_start) over document
            or char_end = lag(char_end) over document
            or char_start = lead(char_start) over document
            or char_end = lead(char_end) over document,
            false
        ) as shares_character,
        hash(token_id, lag(token_id) over document) as bigram,
        hash(
            token_id,
            lag(token_id, 1) over document,
            lag(token_id, 2) over document,
            lag(token_id, 3) over document
        ) as fourgram
    from with_bytes
    window document as (partition by tokenization_id order by position)
),

repeats as (
    select
        tokenization_id,
        position,
        position - lag(position) over (
            partition by tokenization_id, bigram
            order by position
        ) as bigram_distance,
        position - lag(position) over (
            partition by tokenization_id, fourgram
            order by position
        ) as fourgram_distance
    from neighbours
),

-- A token belongs to the word that holds its last character, if one does.
in_words as (
    select
        tokens.tokenization_id,
        tokens.position,
        tokens.char_start <= words.char_start as is_first_of_word,
        words.char_start as word_start,
        words.previous_start,
        words.word,
        words.frequency,
        words.is_number,
        words.is_name
    from tokens
    asof inner join words
        on tokens.problem = words.problem
        and tokens.doc_id = words.doc_id
        and tokens.char_end - 1 >= words.char_start
    where tokens.char_end <= words.char_end
),

word_positions as (
    select
        tokenization_id,
        word_start,
        min(position) as position
    from in_words
    group by tokenization_id, word_start
),

token_features as (
    select
        tokens.tokenization_id,
        tokens.problem,
        tokens.tokenizer_sha256,
        tokens.doc_id,
        tokens.position,
        tokens.byte_start,
        tokens.byte_end,
        greatest(
            tokens.byte_end - greatest(tokens.byte_start, coalesce(tokens.bytes_covered, 0)), 0
        ) as bytes,
        tokens.shares_character,
        in_words.word,
        in_words.frequency as word_frequency,
        coalesce(in_words.is_first_of_word, false) as is_first_of_word,
        coalesce(in_words.is_number, false) as is_number,
        coalesce(in_words.is_name, false) as is_name,
        in_words.position - last_time.position as word_distance,
        in_words.word_start - in_words.previous_start as word_distance_characters,
        repeats.bigram_distance,
        repeats.fourgram_distance
    from neighbours as tokens
    left join in_words
        on tokens.tokenization_id = in_words.tokenization_id
        and tokens.position = in_words.position
    left join word_positions as last_time
        on in_words.tokenization_id = last_time.tokenization_id
        and in_words.previous_start = last_time.word_start
    left join repeats
        on tokens.tokenization_id = repeats.tokenization_id
        and tokens.position = repeats.position
)

select * from token_features
