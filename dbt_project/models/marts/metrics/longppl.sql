with gain_sums as (
    select * from {{ ref('int_gain_sums') }}
),

overlapping_tokens as (
    select * from {{ ref('int_overlapping_tokens') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'longppl'
),

-- Tokens that share no character with another one: key when they pass both thresholds.
separate_key_sums as (
    select
        gain_sums.problem,
        gain_sums.model_id,
        gain_sums.condition,
        gain_sums.doc_id,
        gain_sums.document_tokens,
        variants.variant,
        sum(gain_sums.nll_sum) as nll_sum,
        sum(gain_sums.tokens) as tokens
    from gain_sums
    inner join variants
        on gain_sums.gain_floor >= variants.alpha
        and gain_sums.logprob_floor >= variants.beta
    where not gain_sums.shares_span
    group by all
),

-- Tokens whose characters overlap: key when they lie inside the span of one that passes.
overlapping_key_tokens as (
    select distinct
        inside.problem,
        inside.model_id,
        inside.condition,
        inside.doc_id,
        inside.document_tokens,
        inside.position,
        inside.nll,
        variants.variant
    from overlapping_tokens as passing
    inner join variants
        on passing.gain > variants.alpha
        and -passing.nll > variants.beta
    inner join overlapping_tokens as inside
        on passing.problem = inside.problem
        and passing.model_id = inside.model_id
        and passing.condition = inside.condition
        and passing.doc_id = inside.doc_id
        and passing.cluster = inside.cluster
        and passing.char_start <= inside.char_start
        and passing.char_end >= inside.char_end
),

overlapping_key_sums as (
    select
        problem,
        model_id,
        condition,
        doc_id,
        document_tokens,
        variant,
        sum(nll) as nll_sum,
        count(*) as tokens
    from overlapping_key_tokens
    group by all
),

key_sums as (
    select * from separate_key_sums
    union all by name
    select * from overlapping_key_sums
),

documents as (
    select
        problem,
        model_id,
        condition,
        doc_id,
        document_tokens,
        variant,
        sum(nll_sum) as numerator,
        sum(tokens) as denominator,
        sum(tokens) as tokens
    from key_sums
    group by all
),

longppl as (
    {{ per_document('documents', suffix = 'condition') }}
)

select * from longppl
