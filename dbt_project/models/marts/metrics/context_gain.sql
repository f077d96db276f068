with region_documents as (
    {{ documents_over_regions(
        'context_gain',
        'int_region_pair_sums',
        numerator = "
            case variants.statistic
                when 'share_positive' then sums.tokens_with_gain
                else (sums.short_nll_sum - sums.nll_sum) / if(variants.unit = 'byte', ln(2), 1)
            end
        ",
        denominator = "
            case
                when variants.statistic = 'relative' then sums.short_nll_sum
                when variants.unit = 'byte' then sums.bytes
                else sums.tokens
            end
        ",
        where = "variants.statistic in ('mean', 'relative', 'share_positive')",
    ) }}
),

region_sums as (
    select * from {{ ref('int_region_pair_sums') }}
    where region = 'all'
),

key_sums as (
    select * from {{ ref('int_key_sums') }}
),

weighted_gain_sums as (
    select * from {{ ref('int_weighted_gain_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'context_gain'
),

documents_above as (
    select
        region_sums.problem,
        region_sums.model_id,
        region_sums.condition,
        region_sums.doc_id,
        region_sums.document_tokens,
        variants.variant,
        key_sums.tokens as numerator,
        region_sums.tokens as denominator,
        region_sums.tokens
    from key_sums
    inner join variants
        on variants.statistic = 'share_above'
        and key_sums.alpha = variants.alpha
        and key_sums.beta = '-infinity'
    inner join region_sums
        on {{ same_unit('key_sums', 'region_sums') }}
),

documents_clipped as (
    select
        weighted_gain_sums.problem,
        weighted_gain_sums.model_id,
        weighted_gain_sums.condition,
        weighted_gain_sums.doc_id,
        weighted_gain_sums.document_tokens,
        variants.variant,
        weighted_gain_sums.clipped_gain_sum as numerator,
        weighted_gain_sums.tokens as denominator,
        weighted_gain_sums.tokens
    from weighted_gain_sums
    inner join variants
        on variants.statistic = 'clipped'
        and weighted_gain_sums.clip = variants.clip
),

documents as (
    select * from region_documents
    union all by name
    select * from documents_above
    union all by name
    select * from documents_clipped
),

context_gain as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from context_gain
