{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_tokenisations'), ids = ['tokenisation_id']) }}",
) }}

with units as (
    {{ missing_builds(ref('int_tokenisations'), ids = ['tokenisation_id']) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

text_ends as (
    select
        units.build_id,
        units.problem,
        units.doc_id,
        max(token_stats.char_end) as characters
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    group by all
)

select * from text_ends
