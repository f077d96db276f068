-- Context gain: mean gain in log-probability over the short context
-- Gain = log-prob with full context minus log-prob with the window's context, in nats. Tokenizers
-- reach the window's end at other characters: context_gain in metric_values compares common text.
-- param problem  -- which problem
-- param short  -- the short-context condition
-- param threshold = 0.5  -- a token counts as helped or hurt beyond this many nats
select
    model_id,
    count(*) as tokens,
    avg(gain) as mean_gain,
    median(gain) as median_gain,
    avg((gain > $threshold)::integer) as share_helped,
    avg((gain < -$threshold)::integer) as share_hurt
from paired_tokens($problem, $short)
group by model_id
order by mean_gain desc, model_id
