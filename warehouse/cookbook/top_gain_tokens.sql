-- Which tokens does long context help most, shown with the words before them
-- Names, numbers and terms first seen far above are typical.
-- param problem = minilong  -- which problem
-- param model = smollm2-135m  -- model_id
-- param short = window_512  -- the short-context probe
-- param limit = 20  -- how many
with pairs as (
    select
        long.doc_id,
        long.position,
        long.char_start,
        long.char_end,
        long.logprob as logprob_full,
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
        and long.probe = 'full'
        and short.probe = $short
),

strongest as (
    select * from pairs
    order by gain desc, doc_id, position
    limit $limit
)

select
    strongest.gain,
    strongest.logprob_full,
    substring(documents.text, strongest.char_start + 1, strongest.char_end - strongest.char_start)
        as token,
    substring(documents.text, greatest(strongest.char_start - 39, 1), least(strongest.char_start, 40))
        as words_before,
    strongest.position,
    documents.name as document
from strongest
inner join documents
    on strongest.doc_id = documents.doc_id and documents.problem = $problem
order by strongest.gain desc, strongest.doc_id, strongest.position
