-- Values of a metric by group of documents, and their mean over groups (needs `tokenmart dbt build`)
-- `macro` gives each group the same weight, however many documents or tokens it has; `overall` is the
-- value in metric_values. Groups come from the problem file (`groups` or `group_field`).
-- param problem  -- which problem
-- param metric = perplexity  -- name of the metric
-- param variant = micro  -- name of the variant
select
    metric_groups.model_id,
    metric_groups.document_group,
    metric_groups.value,
    metric_groups.documents,
    metric_groups.tokens,
    avg(metric_groups.value) over (partition by metric_groups.model_id) as macro,
    metric_values.value as overall
from metric_groups
inner join metric_values
    using (problem, metric, variant, model_id)
where
    metric_groups.problem = $problem
    and metric_groups.metric = $metric
    and metric_groups.variant = $variant
order by macro, metric_groups.model_id, metric_groups.document_group
