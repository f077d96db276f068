-- NLL compared with entropy
-- Excess = NLL minus entropy; its mean is 0 for a calibrated model.
-- param problem  -- which problem
-- param condition  -- which context condition
select
    model_id,
    count(*) as tokens,
    avg(-logprob::double) as nll,
    avg(entropy::double) as entropy,
    avg(-logprob::double - entropy::double) as excess,
    corr(-logprob::double, entropy::double) as correlation
from tokens
where problem = $problem and condition = $condition
group by model_id
order by nll, model_id
