{{ config(
    materialized = 'incremental',
    pre_hook = "{% if is_incremental() %}
        delete from {{ this }}
        where tokenization_id not in (select tokenization_id from {{ ref('token_units') }})
    {% endif %}",
) }}

{%- set is_new = 'true' -%}
{%- if is_incremental() -%}
    {%- set is_new
        = 'tokenization_id not in (select distinct built.tokenization_id from ' ~ this ~ ' as built)' -%}
{%- endif %}

with units as (
    select distinct on (tokenization_id) *
    from {{ ref('token_units') }}
    where is_tokenization
        and {{ is_new }}
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

-- The columns that are needed, not all: they are sorted three times.
tokens as (
    select
        units.tokenization_id,
        all_tokens.problem,
        all_tokens.doc_id,
        all_tokens.position,
        all_tokens.token_id,
        all_tokens.char_start,
        all_tokens.char_end
    from all_tokens
    inner join units using (problem, model_id, condition, doc_id)
),

-- Bytes before a character are counted from the beginning of its stretch of 200 characters.
cut as (
    select
        problem,
        doc_id,
        regexp_extract_all(text, '(?s).{1,200}') as texts
    from documents
    where (problem, doc_id) in (select (units.problem, units.doc_id) from units)
),

numbered as (
    select
        problem,
        doc_id,
        unnest(range(len(texts) + 1)) as number,
        unnest(list_append(texts, '')) as text
    from cut
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
    from numbered
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
        *,
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

-- One row per character of a word: an equality join, where an ASOF join would sort all tokens.
word_characters as (
    select
        * exclude (char_end),
        unnest(range(char_start, char_end)) as character
    from words
    where (problem, doc_id) in (select (units.problem, units.doc_id) from units)
),

-- A token belongs to the word that holds its last character, if one does.
in_words as (
    select
        repeats.*,
        found.char_start as word_start,
        found.previous_start,
        found.word,
        found.frequency,
        found.is_number,
        found.is_capitalised,
        found.is_name
    from repeats
    left join word_characters as found
        on repeats.problem = found.problem
        and repeats.doc_id = found.doc_id
        and repeats.char_end - 1 = found.character
),

word_positions as (
    select
        tokenization_id,
        word_start,
        min(position) as position
    from in_words
    where word_start is not null
    group by tokenization_id, word_start
),

token_features as (
    select
        in_words.tokenization_id,
        in_words.problem,
        units.tokenizer_sha256,
        in_words.doc_id,
        in_words.position,
        in_words.byte_start,
        in_words.byte_end,
        greatest(
            in_words.byte_end - coalesce(in_words.bytes_covered, in_words.byte_start),
            0
        ) as bytes,
        in_words.shares_character,
        in_words.word,
        in_words.frequency as word_frequency,
        coalesce(in_words.char_start <= in_words.word_start, false) as is_first_of_word,
        coalesce(in_words.is_number, false) as is_number,
        coalesce(in_words.is_capitalised, false) as is_capitalised,
        coalesce(in_words.is_name, false) as is_name,
        in_words.position - last_time.position as word_distance,
        in_words.word_start - in_words.previous_start as word_distance_characters,
        in_words.bigram_distance,
        in_words.fourgram_distance
    from in_words
    inner join units using (tokenization_id)
    left join word_positions as last_time
        on in_words.tokenization_id = last_time.tokenization_id
        and in_words.previous_start = last_time.word_start
)

select * from token_features
