-- Variants that rank the models most like a metric's (needs `tokenmart dbt build`)
-- Spearman's rho over the models that have both values; none for fewer than three models.
-- param problem  -- which problem
-- param metric = perplexity  -- name of the metric
-- param neighbours = 5  -- number of nearest variants for each of the metric's
with given as (
    select * from metric_values
    where problem = $problem and isfinite(value)
)

select
    asked.variant,
    other.metric as other_metric,
    other.variant as other_variant,
    count(*) as models,
    spearman(asked.value, other.value) as rho
from given as asked
inner join given as other using (model_id)
where asked.metric = $metric
    and (other.metric, other.variant) != (asked.metric, asked.variant)
group by asked.variant, other_metric, other_variant
having rho is not null
qualify row_number() over (
        partition by asked.variant
        order by abs(rho) desc, other_metric, other_variant
    ) <= $neighbours
order by asked.variant, abs(rho) desc, other_metric, other_variant
