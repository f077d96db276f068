{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_regions'), ids = ['unit_id', 'regions_id']) }}",
) }}

with regions as (
    {{ missing_builds(ref('int_regions'), ids = ['unit_id', 'regions_id']) }}
),

token_stats as (
    select * from {{ ref('stg_token_stats') }}
),

documents as (
    select * from {{ ref('stg_documents') }}
),

sums as (
    select
        regions.build_id,
        regions.region,
        count(*) as tokens,
        -sum(cast(token_stats.logprob as double)) as nll_sum,
        sum(cast(token_stats.entropy as double)) as entropy_sum,
        -sum(cast(token_stats.entropy as double) * token_stats.logprob) as entropy_nll_sum,
        sum(cast(token_stats.top_logprob as double)) as top_logprob_sum,
        cast(count_if(token_stats.rank = 1) as bigint) as top_1,
        cast(count_if(token_stats.rank <= 5) as bigint) as top_5,
        cast(count_if(token_stats.rank <= 10) as bigint) as top_10,
        sum(1 / token_stats.rank) as reciprocal_rank_sum,
        min(token_stats.char_start) as first_character,
        max(token_stats.char_end) as last_character
    from token_stats
    inner join regions
        on {{ same_unit('token_stats', 'regions') }}
        and {{ in_region('token_stats', 'regions') }}
    group by regions.build_id, regions.region
),

region_sums as (
    select
        regions.problem,
        regions.model_id,
        regions.condition,
        regions.doc_id,
        regions.document_tokens,
        sums.*,
        {{ bytes_between('documents.text', 'sums.first_character', 'sums.last_character') }}
            as bytes
    from sums
    inner join regions
        on sums.build_id = regions.build_id
        and sums.region = regions.region
    left join documents
        on regions.problem = documents.problem
        and regions.doc_id = documents.doc_id
)

select * from region_sums
