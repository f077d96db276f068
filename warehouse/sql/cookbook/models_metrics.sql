-- Models × metrics: the main metrics of each model in one row (needs `tokenmart dbt build`)
-- Of a metric with several variants the one with values for most models; `longppl_tokens` are behind
-- LongPPL, and `longppl_empty` is the reason why there is none. The report has every metric.
-- param problem  -- which problem
with counted as (
    select
        metric,
        variant,
        count(value) as models
    from metric_values
    where
        problem = $problem
        and metric in ('longppl', 'context_gain', 'retrieval_gain')
    group by metric, variant
),

chosen as (
    select
        metric,
        variant
    from counted
    qualify row_number() over (partition by metric order by models desc, variant) = 1
),

shown as (
    select
        metric_values.*,
        chosen.variant is not null as is_chosen
    from metric_values
    left join chosen using (metric, variant)
    where metric_values.problem = $problem
)

select
    model_id,
    any_value(value) filter (where metric = 'perplexity' and variant = 'micro') as perplexity,
    any_value(value) filter (
        where metric = 'perplexity' and variant = 'bits_per_byte'
    ) as bits_per_byte,
    any_value(tokens) filter (
        where metric = 'perplexity' and variant = 'bits_per_byte'
    ) as tokens,
    any_value(value) filter (where metric = 'longppl' and is_chosen) as longppl,
    any_value(tokens) filter (where metric = 'longppl' and is_chosen) as longppl_tokens,
    any_value(reason) filter (where metric = 'longppl' and is_chosen) as longppl_empty,
    any_value(value) filter (where metric = 'context_gain' and is_chosen) as context_gain,
    any_value(value) filter (where metric = 'retrieval_gain' and is_chosen) as retrieval_gain
from shown
group by model_id
order by bits_per_byte, model_id
