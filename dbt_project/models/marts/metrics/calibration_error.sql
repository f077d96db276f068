with confidence_sums as (
    select * from {{ ref('int_confidence_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'calibration_error'
),

bins as (
    select
        confidence_sums.problem,
        confidence_sums.model_id,
        confidence_sums.doc_id,
        confidence_sums.document_tokens,
        variants.variant,
        confidence_sums.bin * variants.bins // {{ confidence_bins() }} as wide_bin,
        abs(sum(confidence_sums.confidence_sum) - sum(confidence_sums.top_1)) as error_sum,
        sum(confidence_sums.tokens) as tokens
    from confidence_sums
    cross join variants
    group by all
),

documents as (
    select
        problem,
        model_id,
        doc_id,
        document_tokens,
        variant,
        sum(error_sum) as numerator,
        sum(tokens) as denominator,
        sum(tokens) as tokens
    from bins
    group by all
),

calibration_error as (
    {{ per_document('documents') }}
)

select * from calibration_error
