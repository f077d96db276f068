with divergences as (
    select * from {{ ref('int_choice_divergences') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'choice_divergence'
),

documents as (
    select
        divergences.problem,
        divergences.model_id,
        divergences.condition,
        divergences.doc_id,
        divergences.document_tokens,
        variants.variant,
        case variants.statistic
            when 'long_to_short' then divergences.long_to_short_sum
            when 'short_to_long' then divergences.short_to_long_sum
            else divergences.long_to_short_sum + divergences.short_to_long_sum
        end as numerator,
        divergences.tokens as denominator,
        divergences.tokens
    from divergences
    cross join variants
),

choice_divergence as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from choice_divergence
