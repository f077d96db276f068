-- Tokens of a passage with one model's statistics
-- param problem  -- which problem
-- param model  -- model_id
-- param condition  -- which context condition
-- param document = 0  -- doc_id
-- param from_position = 1  -- first token
-- param tokens = 40  -- how many
select
    tokens.position,
    substring(documents.text, tokens.char_start + 1, tokens.char_end - tokens.char_start) as token,
    -tokens.logprob as nll,
    tokens.entropy,
    tokens.rank,
    exp(tokens.top_logprob) as top_1_probability,
    tokens.context_tokens
from tokens
inner join documents using (problem, doc_id)
where
    tokens.problem = $problem
    and tokens.model_id = $model
    and tokens.condition = $condition
    and tokens.doc_id = $document
    and tokens.position >= $from_position
    and tokens.position < $from_position + $tokens
order by tokens.position
