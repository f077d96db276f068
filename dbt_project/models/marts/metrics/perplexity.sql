with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'perplexity'
),

terms as (
    select
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        variants.unit = 'token' as is_log,
        sum(position_sums.nll_sum)
        / case when variants.unit = 'byte' then ln(2) else 1 end as numerator,
        sum(
            case when variants.unit = 'byte' then position_sums.bytes else position_sums.tokens end
        ) as denominator,
        sum(position_sums.tokens) as tokens
    from position_sums
    cross join variants
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        variants.unit
),

perplexity as (
    {{ over_documents('perplexity', 'terms', is_log = 'terms.is_log') }}
)

select * from perplexity
