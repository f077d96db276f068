-- Confident mistakes of a model, with the words around the token
-- The top-1 token had at least this probability, and the text continues differently.
-- param problem  -- which problem
-- param model  -- model_id
-- param condition  -- which context condition
-- param sure = 0.9  -- least probability of the top-1 token
-- param limit = 20  -- how many
with strongest as (
    select * from tokens
    where
        problem = $problem
        and model_id = $model
        and condition = $condition
        and rank > 1
        and exp(top_logprob) >= $sure
    order by top_logprob - logprob desc, doc_id, position
    limit $limit
)

select
    exp(top_logprob) as top_1_probability,
    exp(logprob) as probability,
    rank,
    document_name(doc_id, $problem) as document,
    position,
    context_snippet(doc_id, char_start, char_end, $problem, width := 28) as words
from strongest
order by top_logprob - logprob desc, doc_id, position
