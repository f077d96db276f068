-- Tokens with the largest difference between two models
-- Only tokens with the same characters in both tokenizers; disagreement_passages compares any two
-- models.
-- param problem  -- which problem
-- param model_a  -- model_id
-- param model_b  -- model_id
-- param condition  -- which context condition
-- param limit = 20  -- how many
with pairs as (
    select
        a.doc_id,
        a.char_start,
        a.char_end,
        a.logprob as logprob_a,
        b.logprob as logprob_b,
        a.logprob - b.logprob as difference
    from tokens as a
    inner join tokens as b using (problem, condition, doc_id, char_start, char_end, segment)
    where
        a.problem = $problem
        and a.condition = $condition
        and a.model_id = $model_a
        and b.model_id = $model_b
    order by abs(difference) desc, a.doc_id, a.char_start
    limit $limit
)

select
    token_text(doc_id, char_start, char_end, $problem) as token,
    exp(logprob_a) as probability_a,
    exp(logprob_b) as probability_b,
    difference,
    document_name(doc_id, $problem) as document,
    context_snippet(doc_id, char_start, char_end, $problem, width := 28) as words
from pairs
order by abs(difference) desc, doc_id, char_start
