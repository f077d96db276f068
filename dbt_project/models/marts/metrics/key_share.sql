with key_sums as (
    select * from {{ ref('int_key_sums') }}
),

region_sums as (
    select * from {{ ref('int_region_pair_sums') }}
    where region = 'all'
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'key_share'
),

documents as (
    select
        key_sums.problem,
        key_sums.model_id,
        key_sums.condition,
        key_sums.doc_id,
        key_sums.document_tokens,
        variants.variant,
        if(variants.statistic = 'gain', key_sums.gain_sum, key_sums.tokens) as numerator,
        case variants.statistic
            when 'density' then region_sums.characters / 1000
            when 'gain' then key_sums.tokens
            else region_sums.tokens
        end as denominator,
        if(variants.statistic = 'gain', key_sums.tokens, region_sums.tokens) as tokens
    from key_sums
    inner join variants
        on key_sums.alpha = variants.alpha
        and key_sums.beta = variants.beta
    inner join region_sums
        on {{ same_unit('key_sums', 'region_sums') }}
),

key_share as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from key_share
