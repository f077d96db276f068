-- Tokens that long context makes less likely, with the words around them
-- Distant context misleads here: for example, a repeated phrase that ends differently.
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
        and gain < 0
    order by gain, doc_id, position
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
order by gain, doc_id, position
