{{ config(materialized = 'view') }}

-- The decisions of int_decision_pairs, made without any evaluation: the larger run is taken for the
-- better one. Two equal ones are half of each.

with pairs as (
    select * from {{ ref('int_decision_pairs') }}
    where metric = later_metric
),

planned as (
    select * from {{ ref('int_planned_compute') }}
)

select
    pairs.problem,
    pairs.benchmark,
    one.metric,
    pairs.kind,
    pairs.stage,
    pairs.later_metric,
    pairs.later_stage,
    pairs.subject,
    pairs.other_subject,
    (1 + sign(one.value - other.value) * pairs.later_order) / 2 as agreement
from pairs
inner join planned as one
    on pairs.problem = one.problem
    and pairs.kind = one.kind
    and pairs.subject = one.subject
    and (one.size is null or pairs.stage = one.size)
inner join planned as other
    on pairs.problem = other.problem
    and pairs.kind = other.kind
    and pairs.other_subject = other.subject
    and one.metric = other.metric
    and one.size is not distinct from other.size
