-- Tokens with the highest NLL of a model, with the words around them
-- High entropy: the prediction was uncertain; low entropy: it was confident and wrong.
-- param problem  -- which problem
-- param model  -- model_id
-- param condition  -- which context condition
-- param limit = 20  -- how many
with strongest as (
    select * from tokens
    where problem = $problem and model_id = $model and condition = $condition
    order by logprob, doc_id, position
    limit $limit
)

select
    token_text(doc_id, char_start, char_end, $problem) as token,
    nll,
    entropy,
    rank,
    exp(top_logprob) as top_1_probability,
    document_name(doc_id, $problem) as document,
    position,
    context_snippet(doc_id, char_start, char_end, $problem, width := 28) as words
from strongest
order by logprob, doc_id, position
