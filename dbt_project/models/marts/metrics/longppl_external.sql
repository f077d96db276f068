with external_key_sums as (
    select * from {{ ref('int_external_key_sums') }}
),

evaluations as (
    select * from {{ ref('int_evaluations') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'longppl_external'
),

-- Every scored document stays in, so that a variant without key tokens says so.
terms as (
    select
        evaluations.problem,
        evaluations.model_id,
        evaluations.condition,
        evaluations.doc_id,
        evaluations.document_tokens,
        variants.variant,
        true as is_log,
        coalesce(external_key_sums.nll_sum, 0) as numerator,
        coalesce(external_key_sums.tokens, 0) as denominator,
        coalesce(external_key_sums.tokens, 0) as tokens
    from evaluations
    inner join variants
        on evaluations.evaluator = variants.evaluator
    left join external_key_sums
        on evaluations.problem = external_key_sums.problem
        and evaluations.model_id = external_key_sums.model_id
        and evaluations.condition = external_key_sums.condition
        and evaluations.evaluator = external_key_sums.evaluator
        and evaluations.doc_id = external_key_sums.doc_id
        and variants.alpha = external_key_sums.alpha
        and variants.beta = external_key_sums.beta
),

longppl_external as (
    {{ over_documents(
        'longppl_external',
        'terms',
        condition = 'condition',
        weight = 'document_tokens',
        is_log = 'terms.is_log',
    ) }}
)

select * from longppl_external
