-- Models × metrics: the main metrics of each model in one row (needs `tokenmart dbt build`)
-- Of a metric with several variants the one with values for most models; `longppl_tokens` are behind
-- LongPPL, and `longppl_empty` is the reason why there is none. The report has every metric.
-- param problem  -- which problem
with counted as (
    select
        *,
        count(value) over (partition by metric, variant) as models
    from metric_values
    where problem = $problem
),

shown as (
    select
        *,
        dense_rank() over (partition by metric order by models desc, variant) = 1 as is_chosen
    from counted
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
