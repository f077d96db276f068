with pairs as (
    select * from {{ ref('int_decision_pairs') }}
)

select
    problem,
    benchmark,
    metric,
    kind,
    stage,
    any_value(position) as position,
    later_metric,
    later_stage,
    any_value(later_position) as later_position,
    count(*) as pairs,
    avg(agreement) as agreement
from pairs
group by problem, benchmark, metric, kind, stage, later_metric, later_stage
