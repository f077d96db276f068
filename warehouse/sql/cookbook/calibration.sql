-- Calibration: accuracy of the top-1 token by its predicted probability
-- A calibrated model's accuracy equals the mean probability in every bin.
-- param problem  -- which problem
-- param condition  -- which context condition
-- param bins = 10  -- number of bins
with binned as (
    select
        model_id,
        least(floor(exp(top_logprob) * $bins), $bins - 1)::integer as bin,
        exp(top_logprob) as probability,
        (rank = 1)::integer as correct
    from tokens
    where problem = $problem and condition = $condition
)

select
    model_id,
    bin / $bins as from_probability,
    count(*) as tokens,
    avg(probability) as mean_probability,
    avg(correct) as accuracy,
    avg(correct) - avg(probability) as difference
from binned
group by model_id, bin
order by model_id, bin
