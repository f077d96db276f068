-- Mean NLL by position in the document, in powers of two
-- The NLL of a model that uses long context keeps falling; otherwise it rises again.
-- Each model's own tokens: positions of different tokenizers are different text.
-- param problem  -- which problem
-- param condition  -- which context condition
with placed as (
    select
        model_id,
        2 ** floor(log2(greatest(position, 1)))::integer as from_position,
        -logprob::double as nll
    from tokens
    where problem = $problem and condition = $condition
)

select
    model_id,
    from_position::bigint as from_position,
    count(*) as tokens,
    avg(nll) as nll,
    stddev_samp(nll) / sqrt(count(*)) as naive_stderr
from placed
group by model_id, from_position
order by model_id, from_position
