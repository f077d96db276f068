-- Tokens with the highest context gain, with the words around them
-- Names, numbers and terms that first occurred far back are typical; the token is in [brackets].
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
    order by gain desc, doc_id, position
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
order by gain desc, doc_id, position
