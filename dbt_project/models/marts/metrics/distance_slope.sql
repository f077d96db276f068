with bands as (
    select * from {{ ref('int_word_pair_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'distance_slope'
),

-- Every token lies at the octave of its distance.
octaves as (
    select
        bands.problem,
        bands.model_id,
        bands.condition,
        bands.doc_id,
        bands.document_tokens,
        variants.variant,
        variants.min_document_tokens,
        bands.distance_octave as x,
        sum(bands.tokens) as tokens,
        sum(bands.short_nll_sum - bands.nll_sum) as gain_sum
    from bands
    inner join variants
        on bands.distance_octave is not null
        and {{ word_band() }}
    group by all
),

documents as (
    select
        problem,
        model_id,
        condition,
        doc_id,
        document_tokens,
        variant,
        sum(x * gain_sum) - sum(x * tokens) * sum(gain_sum) / sum(tokens) as numerator,
        sum(x * x * tokens) - sum(x * tokens) * sum(x * tokens) / sum(tokens) as denominator,
        sum(tokens) as tokens
    from octaves
    group by all
    having sum(tokens) >= any_value(min_document_tokens)
),

distance_slope as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from distance_slope
