-- Which tokens become the first choice only thanks to long context
-- With the window alone the model would have written something else; its rank there is shown.
-- param problem = minilong  -- which problem
-- param model = smollm2-135m  -- model_id
-- param short = window_512  -- the short-context condition
-- param document = -1  -- doc_id; -1 for all
-- param limit = 20  -- how many
with pairs as (
    select
        long.doc_id,
        long.position,
        long.char_start,
        long.char_end,
        long.logprob,
        long.rank,
        short.rank as short_rank,
        long.logprob - short.logprob as gain
    from tokens as long
    inner join tokens as short
        on
            long.problem = short.problem
            and long.model_id = short.model_id
            and long.doc_id = short.doc_id
            and long.position = short.position
    where
        long.problem = $problem
        and short.problem = $problem
        and long.model_id = $model
        and short.model_id = $model
        and long.condition = 'full'
        and short.condition = $short
        and ($document < 0 or long.doc_id = $document)
        and long.rank = 1
        and short.rank > 1
),

strongest as (
    select * from pairs
    order by short_rank desc, gain desc, doc_id, position
    limit $limit
)

select
    strongest.gain,
    exp(strongest.logprob) as probability,
    strongest.rank,
    strongest.short_rank,
    documents.name as document,
    strongest.position,
    context_snippet(
        strongest.doc_id, strongest.char_start, strongest.char_end, 28, $problem
    ) as words
from strongest
inner join documents
    on strongest.doc_id = documents.doc_id and documents.problem = $problem
order by strongest.short_rank desc, strongest.gain desc, strongest.doc_id, strongest.position
