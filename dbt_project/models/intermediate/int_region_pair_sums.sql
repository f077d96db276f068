{{ config(
    materialized = 'incremental',
    pre_hook = "{{ drop_stale_builds(ref('int_pair_regions'), ids = ['unit_id', 'regions_id']) }}",
) }}

with regions as (
    {{ missing_builds(ref('int_pair_regions'), ids = ['unit_id', 'regions_id']) }}
),

context_pairs as (
    select * from {{ ref('int_context_pairs') }}
    where {{ context_is_shorter() }}
),

documents as (
    select * from {{ ref('stg_documents') }}
),

sums as (
    select
        regions.build_id,
        regions.region,
        count(*) as tokens,
        cast(count_if(context_pairs.logprob > context_pairs.short_logprob) as bigint)
            as tokens_with_gain,
        -sum(cast(context_pairs.logprob as double)) as nll_sum,
        -sum(cast(context_pairs.short_logprob as double)) as short_nll_sum,
        sum(cast(context_pairs.entropy as double)) as entropy_sum,
        sum(cast(context_pairs.short_entropy as double)) as short_entropy_sum,
        cast(count_if(context_pairs.rank = 1) as bigint) as top_1,
        cast(count_if(context_pairs.short_rank = 1) as bigint) as short_top_1,
        cast(count_if(context_pairs.rank <= 5) as bigint) as top_5,
        cast(count_if(context_pairs.short_rank <= 5) as bigint) as short_top_5,
        sum(1 / context_pairs.rank) as reciprocal_rank_sum,
        sum(1 / context_pairs.short_rank) as short_reciprocal_rank_sum,
        min(context_pairs.char_start) as first_character,
        max(context_pairs.char_end) as last_character
    from context_pairs
    inner join regions
        on context_pairs.unit_id = regions.unit_id
        and {{ in_region('context_pairs', 'regions') }}
    group by regions.build_id, regions.region
),

region_pair_sums as (
    select
        regions.problem,
        regions.model_id,
        regions.condition,
        regions.doc_id,
        regions.document_tokens,
        sums.*,
        sums.last_character - sums.first_character as characters,
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

select * from region_pair_sums
