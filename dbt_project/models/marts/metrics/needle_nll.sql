with answers as (
    select * from {{ ref('int_needle_answers') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'needle_nll'
),

documents as (
    select
        answers.problem,
        answers.model_id,
        answers.probe,
        answers.doc_id,
        answers.document_tokens,
        variants.variant,
        sum(answers.nll_sum) as numerator,
        sum(answers.tokens) as denominator,
        sum(answers.tokens) as tokens
    from answers
    inner join variants
        on answers.depth >= coalesce(variants.from_share, 0)
        and answers.depth <= coalesce(variants.to_share, 1)
    group by all
),

needle_nll as (
    {{ per_document('documents', suffix = 'probe') }}
)

select * from needle_nll
