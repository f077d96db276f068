with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'tail_nll'
),

terms as (
    select
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        sum(position_sums.nll_sum)
        / case when variants.unit = 'byte' then ln(2) else 1 end as numerator,
        sum(
            case when variants.unit = 'byte' then position_sums.bytes else position_sums.tokens end
        ) as denominator,
        sum(position_sums.tokens) as tokens
    from position_sums
    inner join variants
        on position_sums.tail_ceiling <= variants.tail_tokens
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        variants.unit
),

tail_nll as (
    {{ over_documents('tail_nll', 'terms') }}
)

select * from tail_nll
