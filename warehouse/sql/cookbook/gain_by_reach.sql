-- Mean gain by the number of tokens beyond the window
-- A gain that grows with this number shows use of the whole context; bands are powers of two.
-- Each model's own tokens: bands of different tokenizers are different text.
-- param problem  -- which problem
-- param short  -- the short-context condition
select
    model_id,
    (2 ** floor(log2(context_tokens - short_context_tokens)))::bigint as further_tokens_from,
    count(*) as tokens,
    avg(gain) as mean_gain,
    quantile_cont(gain, 0.9) as best_tenth_from,
    avg((gain > 0.5)::integer) as share_helped
from paired_tokens($problem, $short)
where context_tokens > short_context_tokens
group by model_id, further_tokens_from
order by model_id, further_tokens_from
