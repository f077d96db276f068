with answers as (
    select * from {{ ref('int_retrieval_controls') }}
    where control = 'retrieval_foreign'
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'retrieval_lookup'
),

-- Another document has the topic at most: what the right one adds can only be looked up in it.
documents as (
    select
        answers.problem,
        answers.model_id,
        answers.probe,
        answers.doc_id,
        answers.document_tokens,
        variants.variant,
        sum(
            case variants.statistic
                when 'lookup' then answers.nll_sum - answers.with_document_nll_sum
                when 'topic' then answers.without_document_nll_sum - answers.nll_sum
                when 'accuracy' then answers.with_document_top_1 - answers.top_1
            end
        ) as numerator,
        sum(answers.tokens) as denominator,
        sum(answers.tokens) as tokens
    from answers
    cross join variants
    group by all
),

retrieval_lookup as (
    {{ per_document('documents', suffix = 'probe') }}
)

select * from retrieval_lookup
