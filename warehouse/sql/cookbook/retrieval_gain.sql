-- Retrieval gain: log-probability of true continuations with and without the document
-- Gain = mean over answer tokens of (after document + excerpt) minus (after excerpt alone).
-- param problem  -- which problem
-- param with_document  -- the condition in which the excerpt follows the document
-- param without_document  -- the condition with the excerpt alone
with pairs as (
    select
        after_all.model_id,
        after_all.doc_id,
        after_all.segment,
        avg(after_all.logprob::double - alone.logprob::double) as gain
    from tokens as after_all
    inner join tokens as alone using (problem, model_id, doc_id, segment, position)
    where
        after_all.problem = $problem
        and alone.problem = $problem
        and after_all.condition = $with_document
        and alone.condition = $without_document
    group by after_all.model_id, after_all.doc_id, after_all.segment
)

select
    model_id,
    count(*) as excerpts,
    avg(gain) as mean_gain,
    median(gain) as median_gain,
    avg((gain > 0)::integer) as share_helped
from pairs
group by model_id
order by mean_gain desc, model_id
