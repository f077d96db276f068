{{ config(
    materialized = 'incremental',
    pre_hook = "{% if is_incremental() %}
        delete from {{ this }}
        where corpus_id not in (select current.corpus_id from ({{ corpora() }}) as current)
    {% endif %}",
) }}

with corpora as (
    {{ corpora() }}
),

documents as (
    select
        texts.*,
        corpora.corpus_id
    from {{ source('extract', 'documents') }} as texts
    inner join corpora using (problem)
    {%- if is_incremental() %}
    where corpora.corpus_id not in (select distinct built.corpus_id from {{ this }} as built)
    {%- endif %}
),

-- A piece is a run of letters, their marks (accents, vowels of Hindi), digits and underscores, with
-- the characters before it; a Chinese character, which no space separates from the next word, is a
-- piece of its own.
cut as (
    select
        problem,
        doc_id,
        corpus_id,
        flatten(list_transform(
            regexp_extract_all(text, '[^\p{L}\p{N}_]*[\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*'),
            lambda run: regexp_extract_all(run, '\p{Han}|\P{Han}+')
        )) as pieces
    from documents
),

pieces as (
    select
        problem,
        doc_id,
        corpus_id,
        unnest(pieces) as piece,
        generate_subscripts(pieces, 1) as number
    from cut
),

placed as (
    select
        problem,
        doc_id,
        corpus_id,
        regexp_replace(piece, '^[^\p{L}\p{N}_]+', '') as run,
        lower(run) as word,
        regexp_matches(run, '\p{N}') as is_number,
        regexp_matches(run, '[\p{L}\p{N}]') as is_word,
        regexp_matches(run, '^[\p{Lu}\p{Lt}]') as is_capitalised,
        sum(length(piece)) over (
            partition by problem, doc_id
            order by number
        ) as char_end,
        length(run) as characters
    from pieces
),

frequencies as (
    select
        problem,
        word,
        count(*) as frequency,
        bool_and(is_capitalised) as is_name
    from placed
    where is_word
    group by problem, word
),

words as (
    select
        placed.problem,
        placed.doc_id,
        cast(placed.char_end - placed.characters as integer) as char_start,
        cast(placed.char_end as integer) as char_end,
        placed.word,
        placed.is_number,
        placed.is_capitalised,
        frequencies.is_name and not placed.is_number as is_name,
        cast(frequencies.frequency as integer) as frequency,
        cast(lag(placed.char_end - placed.characters) over (
            partition by placed.problem, placed.doc_id, placed.word
            order by placed.char_end
        ) as integer) as previous_start,
        placed.corpus_id
    from placed
    inner join frequencies using (problem, word)
    where placed.is_word
)

select * from words
