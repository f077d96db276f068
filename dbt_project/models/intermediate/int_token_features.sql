{{ config(
    materialized = 'incremental',
    incremental_strategy = 'append',
    on_schema_change = 'sync_all_columns',
    pre_hook = "{{ drop_stale_builds(ref('int_tokenisations'), id = 'tokenisation_id') }}",
) }}

with units as (
    {{ missing_builds(ref('int_tokenisations'), id = 'tokenisation_id') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

words as (
    select * from {{ ref('int_words') }}
),

tokens as (
    select
        units.build_id,
        units.tokenisation_id,
        units.problem,
        units.doc_id,
        token_stats.position,
        token_stats.token_id,
        token_stats.char_start,
        token_stats.char_end
    from token_stats
    inner join units
        on token_stats.problem = units.problem
        and token_stats.model_id = units.model_id
        and token_stats.probe = units.probe
        and token_stats.doc_id = units.doc_id
),

neighbours as (
    select
        *,
        hash(token_id, lag(token_id, 1) over document) as bigram,
        hash(
            token_id,
            lag(token_id, 1) over document,
            lag(token_id, 2) over document,
            lag(token_id, 3) over document
        ) as fourgram,
        -- A token goes on with its predecessor's cluster when their spans overlap, or when
        -- one of the two is empty and they touch.
        case
            when char_start < lag(char_end) over document then 0
            when char_start = lag(char_end) over document
                and (
                    char_start = char_end
                    or lag(char_start) over document = lag(char_end) over document
                ) then 0
            else 1
        end as opens_cluster
    from tokens
    window document as (partition by build_id order by position)
),

repeats as (
    select
        * exclude (bigram, fourgram, opens_cluster),
        position - lag(position) over same_bigram as bigram_distance,
        position - lag(position) over same_fourgram as fourgram_distance,
        cast(
            sum(opens_cluster) over (
                partition by build_id
                order by position
            ) as integer
        ) as cluster,
        lead(opens_cluster, 1, 1) over (
            partition by build_id
            order by position
        ) = 0 or opens_cluster = 0 as shares_span
    from neighbours
    window
        same_bigram as (
            partition by build_id, bigram
            order by position
        ),
        same_fourgram as (
            partition by build_id, fourgram
            order by position
        )
),

-- A token belongs to the word that holds its last character.
token_features as (
    select
        repeats.build_id,
        repeats.tokenisation_id,
        repeats.position,
        repeats.bigram_distance,
        repeats.fourgram_distance,
        repeats.cluster,
        repeats.shares_span,
        case when repeats.char_end <= words.char_end then words.frequency end as word_frequency,
        coalesce(repeats.char_end <= words.char_end and words.is_number, false) as is_number
    from repeats
    asof left join words
        on repeats.problem = words.problem
        and repeats.doc_id = words.doc_id
        and repeats.char_end > words.char_start
)

select * from token_features
