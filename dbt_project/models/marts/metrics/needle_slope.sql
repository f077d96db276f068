with answers as (
    select * from {{ ref('int_needle_answers') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'needle_slope'
),

-- What a deeper place is worth: better answers have the larger scores.
scored as (
    select
        answers.problem,
        answers.model_id,
        answers.probe,
        answers.doc_id,
        answers.document_tokens,
        variants.variant,
        answers.depth,
        answers.tokens,
        case variants.statistic
            when 'nll' then -answers.nll_sum / answers.tokens
            when 'gain' then (answers.absent_nll_sum - answers.nll_sum) / answers.tokens
            else cast(answers.first_token_right as double)
        end as score
    from answers
    cross join variants
),

documents as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        variant,
        sum(depth * score) - sum(depth) * sum(score) / count(*) as numerator,
        sum(depth * depth) - sum(depth) * sum(depth) / count(*) as denominator,
        sum(tokens) as tokens
    from scored
    group by problem, model_id, probe, doc_id, document_tokens, variant
    having count(distinct depth) > 1
),

needle_slope as (
    {{ per_document('documents', suffix = 'probe') }}
)

select * from needle_slope
