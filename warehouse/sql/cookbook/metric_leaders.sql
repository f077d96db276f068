-- Models ranked by one metric (needs `tokenmart dbt build`)
-- `tokenmart sql "select distinct metric, variant from metric_values"` lists all metrics.
-- param problem  -- which problem
-- param metric = perplexity  -- name of the metric
select
    metric_values.variant,
    metric_values.model_id,
    metric_values.value,
    metric_values.tokens,
    metric_values.documents
from metric_values
where metric_values.problem = $problem and metric_values.metric = $metric
order by metric_values.variant, metric_values.value, metric_values.model_id
