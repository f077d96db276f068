with parts as (
    select * from {{ ref('int_model_scores') }}
),

measured as (
    select
        problem,
        metric,
        variant,
        model_id,
        -- ten digits, as in metric_values: equal models tie
        cast(format('{:.9e}', avg(score)) as double) as value,
        count(document) as documents
    from parts
    group by problem, metric, variant, model_id
),

variants as (
    select distinct
        problem,
        metric,
        variant
    from parts
),

models as (
    select distinct
        problem,
        model_id
    from parts
)

select
    variants.problem,
    variants.metric,
    variants.variant,
    models.model_id,
    measured.value,
    cast(0 as bigint) as tokens,
    cast(coalesce(measured.documents, 0) as bigint) as documents,
    case when measured.value is null then 'no_score' end as reason
from variants
inner join models using (problem)
left join measured using (problem, metric, variant, model_id)
