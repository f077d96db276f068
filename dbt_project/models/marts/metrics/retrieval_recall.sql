with excerpts as (
    select * from {{ ref('int_retrieval_excerpts') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'retrieval_recall'
),

recalled as (
    select
        excerpts.problem,
        excerpts.model_id,
        excerpts.probe,
        excerpts.doc_id,
        excerpts.document_tokens,
        variants.variant,
        variants.statistic,
        excerpts.tokens,
        excerpts.first_position / excerpts.document_tokens as depth,
        case variants.statistic
            when 'first_token' then cast(excerpts.right_prefix > 0 as integer)
            when 'exact_match' then cast(excerpts.right_prefix = excerpts.tokens as integer)
            when 'prefix' then excerpts.right_prefix
            when 'prefix_gain'
                then excerpts.right_prefix - excerpts.without_document_right_prefix
            else excerpts.top_1 / excerpts.tokens
        end as recall
    from excerpts
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
        case statistic
            when 'worst_depth' then min(recall)
            when 'depth_slope' then regr_sxy(recall, depth)
            else sum(recall)
        end as numerator,
        case statistic
            when 'worst_depth' then 1
            when 'depth_slope' then regr_sxx(recall, depth)
            else count(*)
        end as denominator,
        sum(tokens) as tokens
    from recalled
    group by problem, model_id, probe, doc_id, document_tokens, variant, statistic
),

retrieval_recall as (
    {{ per_document('documents', suffix = 'probe') }}
)

select * from retrieval_recall
