-- Number and NLL of LongPPL's key tokens
-- A key token gains more than alpha nats from long context; its probability is then above exp(beta).
-- param problem  -- which problem
-- param short  -- the short-context condition
-- param alpha = 2.0  -- least gain, in nats
-- param beta = -2.0  -- least log-prob with full context
with pairs as (
    select
        model_id,
        logprob::double as logprob,
        gain > $alpha and logprob > $beta as is_key
    from paired_tokens($problem, $short)
)

select
    model_id,
    count(*) as tokens,
    count(*) filter (where is_key) as key_tokens,
    avg(is_key::integer) as key_share,
    exp(-avg(logprob) filter (where is_key)) as key_perplexity,
    exp(-avg(logprob)) as perplexity
from pairs
group by model_id
order by key_perplexity, model_id
