-- How far back does long context help: mean gain by how much more than the window it shows
-- A gain that grows with the reach is a model that uses all of its context; powers of two.
-- param problem = minilong  -- which problem
-- param short = window_512  -- the short-context condition
with pairs as (
    select
        long.model_id,
        (2 ** floor(log2(long.context_tokens - short.context_tokens)))::bigint as further_tokens,
        long.logprob::double - short.logprob::double as gain
    from tokens as long
    inner join tokens as short
        on
            long.problem = short.problem
            and long.model_id = short.model_id
            and long.doc_id = short.doc_id
            and long.position = short.position
    where
        long.problem = $problem
        and short.problem = $problem
        and long.condition = 'full'
        and short.condition = $short
        and long.context_tokens > short.context_tokens
)

select
    model_id,
    further_tokens as further_tokens_from,
    count(*) as tokens,
    avg(gain) as mean_gain,
    quantile_cont(gain, 0.9) as best_tenth_from,
    avg((gain > 0.5)::integer) as share_helped
from pairs
group by model_id, further_tokens
order by model_id, further_tokens
