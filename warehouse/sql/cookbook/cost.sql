-- Cost of extraction: tokens, seconds, speed and peak memory per model
-- Tokens processed went through the backbone; tokens scored became rows.
-- param problem  -- which problem
select
    model_id,
    any_value(device) as device,
    any_value(dtype) as dtype,
    sum(tokens_processed) as tokens_processed,
    sum(tokens_scored) as tokens_scored,
    round(sum(seconds), 1) as seconds,
    round(sum(tokens_processed) / nullif(sum(seconds), 0)) as tokens_per_second,
    round(max(peak_bytes) / 1e9, 2) as peak_gb
from units
where problem = $problem
group by model_id
order by seconds desc, model_id
