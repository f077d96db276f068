with parts as (
    select * from {{ ref('int_model_scores') }}
)

select
    problem,
    metric,
    variant,
    model_id,
    doc_id,
    score as numerator,
    cast(1 as double) as denominator,
    cast(1 as double) as weight,
    cast(0 as bigint) as tokens
from parts
where document is not null
