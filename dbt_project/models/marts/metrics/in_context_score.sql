with region_sums as (
    select * from {{ ref('int_region_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'in_context_score'
),

documents as (
    select
        late.problem,
        late.model_id,
        late.doc_id,
        late.document_tokens,
        variants.variant,
        late.nll_sum / late.tokens - early.nll_sum / early.tokens as numerator,
        1 as denominator,
        late.tokens + early.tokens as tokens
    from variants
    inner join region_sums as late
        on variants.region = late.region
    inner join region_sums as early
        on variants.base_region = early.region
        and {{ same_unit('late', 'early') }}
    -- both parts whole: a document that ends within the late one says something else
    where late.tokens = variants.to_position - variants.from_position
        and early.tokens = variants.base_to_position - variants.base_from_position
),

in_context_score as (
    {{ per_document('documents') }}
)

select * from in_context_score
