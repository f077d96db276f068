with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'position_nll'
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
        on position_sums.position_floor >= coalesce(variants.from_position, 0)
        and position_sums.position_floor < coalesce(variants.to_position, 2147483647)
        and position_sums.share_floor >= coalesce(variants.from_share, 0)
        and position_sums.share_floor < coalesce(variants.to_share, 1)
    group by
        position_sums.problem,
        position_sums.model_id,
        position_sums.doc_id,
        variants.variant,
        variants.unit
),

position_nll as (
    {{ over_documents('position_nll', 'terms') }}
)

select * from position_nll
