with answers as (
    select * from {{ ref('int_needle_answers') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'needle_recall'
),

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
                when 'first_token' then cast(answers.first_token_right as integer)
                when 'all_tokens' then cast(answers.all_tokens_right as integer)
                else answers.absent_nll_sum - answers.nll_sum
            end
        ) as numerator,
        sum(if(variants.statistic = 'gain', answers.tokens, 1)) as denominator,
        sum(answers.tokens) as tokens
    from answers
    inner join variants
        on answers.depth >= coalesce(variants.from_share, 0)
        and answers.depth <= coalesce(variants.to_share, 1)
    group by all
),

needle_recall as (
    {{ per_document('documents', suffix = 'probe') }}
)

select * from needle_recall
