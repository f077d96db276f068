-- Which passages need long context: stretches of text with the highest mean gain
-- Good reading for an idea of what a model fetches from far above.
-- param problem = minilong  -- which problem
-- param model = smollm2-135m  -- model_id
-- param short = window_512  -- the short-context condition
-- param tokens = 24  -- tokens of a passage
-- param limit = 20  -- how many
with pairs as (
    select
        long.doc_id,
        long.position // $tokens as passage,
        long.char_start,
        long.char_end,
        long.logprob::double - short.logprob::double as gain
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
),

passages as (
    select
        doc_id,
        min(char_start) as first,
        max(char_end) as past,
        avg(gain) as mean_gain,
        max(gain) as highest_gain
    from pairs
    group by doc_id, passage
    having count(*) = $tokens
    order by mean_gain desc, doc_id, first
    limit $limit
)

select
    passages.mean_gain,
    passages.highest_gain,
    documents.name as document,
    substring(documents.text, passages.first + 1, passages.past - passages.first) as passage
from passages
inner join documents
    on passages.doc_id = documents.doc_id and documents.problem = $problem
order by passages.mean_gain desc, passages.doc_id, passages.first
