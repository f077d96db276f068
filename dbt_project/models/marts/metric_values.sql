with metric_values as (
    select * from {{ ref('perplexity') }}
    union all by name
    select * from {{ ref('tail_nll') }}
    union all by name
    select * from {{ ref('position_nll') }}
    union all by name
    select * from {{ ref('nll_slope') }}
    union all by name
    select * from {{ ref('nll_curvature') }}
    union all by name
    select * from {{ ref('context_gain') }}
    union all by name
    select * from {{ ref('position_gain') }}
    union all by name
    select * from {{ ref('gain_quantile') }}
    union all by name
    select * from {{ ref('longppl') }}
    union all by name
    select * from {{ ref('longppl_soft') }}
    union all by name
    select * from {{ ref('longppl_external') }}
    union all by name
    select * from {{ ref('key_share') }}
    union all by name
    select * from {{ ref('retrieval_gain') }}
    union all by name
    select * from {{ ref('induction_nll') }}
    union all by name
    select * from {{ ref('induction_advantage') }}
    union all by name
    select * from {{ ref('induction_gain') }}
    union all by name
    select * from {{ ref('rare_word_nll') }}
    union all by name
    select * from {{ ref('rare_word_gain') }}
    union all by name
    select * from {{ ref('rank') }}
    union all by name
    select * from {{ ref('rank_gain') }}
    union all by name
    select * from {{ ref('entropy') }}
    union all by name
    select * from {{ ref('entropy_drop') }}
    union all by name
    select * from {{ ref('calibration_error') }}
    union all by name
    select * from {{ ref('confident_mistakes') }}
)

-- Sums of floats come out otherwise in their last bits each time. Ten significant digits keep
-- models that are alike on a metric equal, so that ranks don't depend on the run.
select
    problem,
    metric,
    variant,
    model_id,
    cast(format('{:.9e}', value) as double) as value,
    tokens,
    documents,
    reason
from metric_values
