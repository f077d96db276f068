{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_corpora'), ids = ['corpus_id']) }}",
) }}

with documents as (
    {{ missing_documents() }}
),

-- One pass over a text: cutting each block out by its offset walks there from the beginning.
-- The empty block at the end is for spans that end where the last full one does.
cut as (
    select
        build_id,
        problem,
        doc_id,
        list_append(
            regexp_extract_all(text, '(?s).{1,{{ text_block_characters() }}}'), ''
        ) as texts
    from documents
),

blocks as (
    select
        build_id,
        problem,
        doc_id,
        unnest(texts) as text,
        generate_subscripts(texts, 1) as number
    from cut
),

text_blocks as (
    select
        build_id,
        problem,
        doc_id,
        cast((number - 1) * {{ text_block_characters() }} as integer) as first_character,
        coalesce(
            sum(strlen(text)) over (
                partition by problem, doc_id
                order by number
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as bytes_before,
        text
    from blocks
)

select * from text_blocks
