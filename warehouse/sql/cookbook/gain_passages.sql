-- Passages with the highest mean context gain
-- Examples of text that a model predicts from distant context.
-- param problem  -- which problem
-- param model  -- model_id
-- param short  -- the short-context condition
-- param tokens = 24  -- tokens of a passage
-- param limit = 20  -- how many
with passages as (
    select
        doc_id,
        min(char_start) as first,
        max(char_end) as past,
        avg(gain) as mean_gain,
        max(gain) as highest_gain
    from paired_tokens($problem, $short)
    where model_id = $model
    group by doc_id, position // $tokens
    having count(*) = $tokens
    order by mean_gain desc, doc_id, first
    limit $limit
)

select
    mean_gain,
    highest_gain,
    document_name(doc_id, $problem) as document,
    token_text(doc_id, first, past, $problem) as passage
from passages
order by mean_gain desc, doc_id, first
