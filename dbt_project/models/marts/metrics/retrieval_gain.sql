with excerpts as (
    select * from {{ ref('int_retrieval_excerpts') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'retrieval_gain'
),

-- One term per excerpt: `micro` is the mean over excerpts, `macro` the mean over documents.
excerpt_terms as (
    select
        excerpts.problem,
        excerpts.model_id,
        excerpts.probe,
        excerpts.doc_id,
        variants.variant,
        variants.aggregation,
        excerpts.segment,
        excerpts.tokens,
        case variants.statistic
            when 'share_positive' then cast(excerpts.gain_sum > 0 as double)
            when 'accuracy'
                then (excerpts.top_1 - excerpts.without_document_top_1) / excerpts.tokens
            else excerpts.gain_sum / excerpts.tokens
        end as numerator,
        case variants.statistic
            when 'relative' then excerpts.without_document_nll_sum / excerpts.tokens
            else 1
        end as denominator
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

document_terms as (
    select
        problem,
        model_id,
        probe,
        doc_id,
        variant,
        sum(numerator) as numerator,
        sum(denominator) as denominator,
        sum(tokens) as tokens
    from excerpt_terms
    where aggregation in ('micro', 'macro')
    group by all
),

terms as (
    select * from document_terms
    union all by name
    select * exclude (aggregation, segment) from excerpt_terms
    where aggregation not in ('micro', 'macro')
),

retrieval_gain as (
    {{ over_documents('retrieval_gain', 'terms', suffix = 'probe') }}
)

select * from retrieval_gain
