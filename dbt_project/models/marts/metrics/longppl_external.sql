with external_key_sums as (
    select * from {{ ref('int_external_key_sums') }}
),

evaluated_units as (
    select * from {{ ref('int_evaluated_units') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'longppl_external'
),

-- Every scored document stays in, so that a variant without key tokens says so.
terms as (
    select
        evaluated_units.problem,
        evaluated_units.model_id,
        evaluated_units.condition,
        evaluated_units.doc_id,
        evaluated_units.document_tokens,
        variants.variant,
        coalesce(external_key_sums.nll_sum, 0) as numerator,
        coalesce(external_key_sums.tokens, 0) as denominator,
        coalesce(external_key_sums.tokens, 0) as tokens
    from evaluated_units
    inner join variants
        on evaluated_units.evaluator = variants.evaluator
    left join external_key_sums
        on evaluated_units.problem = external_key_sums.problem
        and evaluated_units.model_id = external_key_sums.model_id
        and evaluated_units.condition = external_key_sums.condition
        and evaluated_units.evaluator = external_key_sums.evaluator
        and evaluated_units.doc_id = external_key_sums.doc_id
        and variants.alpha = external_key_sums.alpha
        and variants.beta = external_key_sums.beta
),

longppl_external as (
    {{ over_documents(
        'longppl_external',
        'terms',
        suffix = 'condition',
        weight = 'document_tokens',
        is_log = 'true',
    ) }}
)

select * from longppl_external
