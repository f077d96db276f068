-- Which tokens surprise a model most, shown with the words before them
-- High entropy means it knew that it didn't know; low entropy means it was sure and wrong.
-- param problem = minilong  -- which problem
-- param model = smollm2-135m  -- model_id
-- param probe = full  -- which context condition
-- param limit = 20  -- how many
with strongest as (
    select * from tokens
    where problem = $problem and model_id = $model and probe = $probe
    order by logprob, doc_id, position
    limit $limit
)

select
    -strongest.logprob as nll,
    strongest.entropy,
    strongest.rank,
    exp(strongest.top_logprob) as first_choice_probability,
    substring(documents.text, strongest.char_start + 1, strongest.char_end - strongest.char_start)
        as token,
    substring(documents.text, greatest(strongest.char_start - 39, 1), least(strongest.char_start, 40))
        as words_before,
    strongest.position,
    documents.name as document
from strongest
inner join documents
    on strongest.problem = documents.problem and strongest.doc_id = documents.doc_id
order by strongest.logprob, strongest.doc_id, strongest.position
