-- Passages with the largest difference between two models
-- Bits over the same characters, so the tokenizers may differ; a passage belongs to the token
-- that starts in it. Above zero: more bits for the first model.
-- param problem  -- which problem
-- param model_a  -- model_id
-- param model_b  -- model_id
-- param condition  -- a condition that scores every token
-- param characters = 80  -- length of a passage
-- param limit = 20  -- how many
-- A document may be cut at another character for each tokenizer: compare what both have scored.
with scored as (
    select doc_id, char_start, char_end, logprob, model_id
    from tokens
    where
        problem = $problem
        and condition = $condition
        and model_id in ($model_a, $model_b)
),

-- A document may be cut at another character for each tokenizer: compare what both have scored.
ends as (
    select doc_id, min(past) as past
    from (select doc_id, model_id, max(char_end) as past from scored group by doc_id, model_id)
    group by doc_id
    having count(*) = 2
),

passages as (
    select
        scored.doc_id,
        scored.char_start // $characters as passage,
        -sum(scored.logprob::double) filter (where scored.model_id = $model_a) / ln(2) as bits_a,
        -sum(scored.logprob::double) filter (where scored.model_id = $model_b) / ln(2) as bits_b
    from scored
    inner join ends using (doc_id)
    where (scored.char_start // $characters + 1) * $characters <= ends.past
    group by scored.doc_id, passage
),

strongest as (
    select * from passages
    where bits_a is not null and bits_b is not null
    order by abs(bits_a - bits_b) desc, doc_id, passage
    limit $limit
)

select
    bits_a - bits_b as more_bits_for_a,
    bits_a,
    bits_b,
    document_name(doc_id, $problem) as document,
    token_text(
        doc_id, passage * $characters, (passage + 1) * $characters, $problem
    ) as text
from strongest
order by abs(bits_a - bits_b) desc, doc_id, passage
