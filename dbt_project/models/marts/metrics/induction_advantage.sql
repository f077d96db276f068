with bands as (
    select * from {{ ref('int_repeat_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'induction_advantage'
),

repeats_and_firsts as (
    select
        bands.problem,
        bands.model_id,
        bands.doc_id,
        bands.document_tokens,
        variants.variant,
        sum(bands.tokens) filter (where {{ repeated_within() }}) as repeats,
        sum(bands.nll_sum) filter (where {{ repeated_within() }}) / repeats as repeat_nll,
        sum(bands.nll_sum) filter (where {{ ngram_octave() }} is null)
        / sum(bands.tokens) filter (where {{ ngram_octave() }} is null) as first_nll
    from bands
    cross join variants
    group by all
),

documents as (
    select
        *,
        repeats as tokens,
        first_nll - repeat_nll as numerator,
        1 as denominator
    from repeats_and_firsts
    where first_nll - repeat_nll is not null
),

induction_advantage as (
    {{ per_document('documents') }}
)

select * from induction_advantage
