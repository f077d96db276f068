-- Which tokens surprise a model most, with the words around them
-- High entropy means it knew that it didn't know; low entropy means it was sure and wrong.
-- param problem = minilong  -- which problem
-- param model = smollm2-135m  -- model_id
-- param condition = full  -- which context condition
-- param limit = 20  -- how many
with strongest as (
    select * from tokens
    where problem = $problem and model_id = $model and condition = $condition
    order by logprob, doc_id, position
    limit $limit
)

select
    -strongest.logprob as nll,
    strongest.entropy,
    strongest.rank,
    exp(strongest.top_logprob) as first_choice_probability,
    documents.name as document,
    strongest.position,
    context_snippet(
        strongest.doc_id, strongest.char_start, strongest.char_end, 28, $problem
    ) as words
from strongest
inner join documents
    on strongest.problem = documents.problem and strongest.doc_id = documents.doc_id
order by strongest.logprob, strongest.doc_id, strongest.position
