with excerpts as (
    select * from {{ ref('int_retrieval_excerpts') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'retrieval_gain'
),

scored as (
    select
        excerpts.problem,
        excerpts.model_id,
        excerpts.probe,
        excerpts.doc_id,
        excerpts.document_tokens,
        variants.variant,
        excerpts.tokens,
        case variants.statistic
            when 'share_positive' then cast(excerpts.gain_sum > 0 as double)
            when 'accuracy'
                then (excerpts.top_1 - excerpts.without_document_top_1) / excerpts.tokens
            else excerpts.gain_sum / excerpts.tokens
        end as score,
        case variants.statistic
            when 'relative' then excerpts.without_document_nll_sum / excerpts.tokens
            else 1
        end as base
    from excerpts
    inner join variants
        on excerpts.first_position
        >= coalesce(variants.from_share, 0) * excerpts.document_tokens
        and excerpts.first_position
        < coalesce(variants.to_share, 1) * excerpts.document_tokens
        and excerpts.document_tokens - excerpts.first_position
        >= coalesce(variants.from_distance, 0)
        and excerpts.document_tokens - excerpts.first_position
        < coalesce(variants.to_distance, 2147483647)
),

-- Every excerpt counts alike, whatever its number of tokens.
documents as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        document_tokens,
        variant,
        sum(score) as numerator,
        sum(base) as denominator,
        sum(tokens) as tokens
    from scored
    group by all
),

retrieval_gain as (
    {{ per_document('documents', suffix = 'probe') }}
)

select * from retrieval_gain
