with metric_values as (
    select * from {{ ref('perplexity') }}
    union all by name
    select * from {{ ref('tail_nll') }}
    union all by name
    select * from {{ ref('position_nll') }}
    union all by name
    select * from {{ ref('nll_slope') }}
    union all by name
    select * from {{ ref('context_gain') }}
    union all by name
    select * from {{ ref('longppl') }}
    union all by name
    select * from {{ ref('longppl_soft') }}
    union all by name
    select * from {{ ref('retrieval_gain') }}
)

select
    problem,
    metric,
    variant,
    model_id,
    value,
    tokens,
    documents,
    reason
from metric_values
