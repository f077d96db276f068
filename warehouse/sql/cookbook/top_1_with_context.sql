-- Tokens that are top-1 only with long context
-- The result has the token's rank after the window alone.
-- param problem  -- which problem
-- param model  -- model_id
-- param short  -- the short-context condition
-- param document = -1  -- doc_id; -1 for all
-- param limit = 20  -- how many
with strongest as (
    select * from paired_tokens($problem, $short)
    where
        model_id = $model
        and ($document < 0 or doc_id = $document)
        and rank = 1
        and short_rank > 1
    order by short_rank desc, gain desc, doc_id, position
    limit $limit
)

select
    gain,
    exp(logprob) as probability,
    rank,
    short_rank,
    document_name(doc_id, $problem) as document,
    position,
    context_snippet(doc_id, char_start, char_end, $problem, width := 28) as words
from strongest
order by short_rank desc, gain desc, doc_id, position
