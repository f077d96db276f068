{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_corpora'), id = 'corpus_id') }}",
) }}

with documents as (
    {{ missing_documents() }}
),

cuts as (
    select
        build_id,
        problem,
        doc_id,
        text,
        unnest(range(0, characters + 1, 1024)) as first_character
    from documents
),

blocks as (
    select
        build_id,
        problem,
        doc_id,
        first_character,
        substring(text, first_character + 1, 1024) as text
    from cuts
),

text_blocks as (
    select
        build_id,
        problem,
        doc_id,
        cast(first_character as integer) as first_character,
        coalesce(
            sum(strlen(text)) over (
                partition by problem, doc_id
                order by first_character
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as bytes_before,
        text
    from blocks
)

select * from text_blocks
