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

-- Every scored document stays in, so that a variant without key tokens says so.
documents as (
    select distinct
        problem,
        model_id,
        condition,
        doc_id,
        document_tokens
    from gain_sums
),

terms as (
    select
        documents.problem,
        documents.model_id,
        documents.condition,
        documents.doc_id,
        documents.document_tokens,
        variants.variant,
        coalesce(sum(key_sums.nll_sum), 0) as numerator,
        coalesce(sum(key_sums.tokens), 0) as denominator,
        coalesce(sum(key_sums.tokens), 0) as tokens
    from documents
    cross join variants
    left join key_sums
        on documents.problem = key_sums.problem
        and documents.model_id = key_sums.model_id
        and documents.condition = key_sums.condition
        and documents.doc_id = key_sums.doc_id
        and variants.variant = key_sums.variant
    group by all
),

longppl as (
    {{ over_documents(
        'longppl',
        'terms',
        suffix = 'condition',
        weight = 'document_tokens',
        is_log = 'true',
    ) }}
)

select * from longppl
