{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_units(ref('int_tokenisations'), id = 'tokenisation_id') }}",
) }}

with units as (
    {{ missing_units(ref('int_tokenisations'), id = 'tokenisation_id') }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

ngrams as (
    select
        units.tokenisation_id,
        token_stats.position,
        hash(token_stats.token_id, lag(token_stats.token_id, 1) over document) as bigram,
        hash(
            token_stats.token_id,
            lag(token_stats.token_id, 1) over document,
            lag(token_stats.token_id, 2) over document,
            lag(token_stats.token_id, 3) over document
        ) as fourgram
    from token_stats
    inner join units
        on {{ same_unit('token_stats', 'units') }}
    window document as (partition by units.tokenisation_id order by token_stats.position)
),

distances as (
    select
        tokenisation_id,
        position,
        position - lag(position) over (
            partition by tokenisation_id, bigram
            order by position
        ) as bigram_distance,
        position - lag(position) over (
            partition by tokenisation_id, fourgram
            order by position
        ) as fourgram_distance
    from ngrams
),

repeats as (
    select * from distances
    where bigram_distance is not null
)

select * from repeats
