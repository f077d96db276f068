-- Text with the largest difference between two models
-- The tokens of each model are summed over the shortest characters that both tokenizers end at: an
-- emoji that one has in a token and the other in four bytes is compared whole.
-- param problem  -- which problem
-- param model_a  -- model_id
-- param model_b  -- model_id
-- param condition  -- which context condition
-- param limit = 20  -- how many
with scored as (
    select
        model_id,
        doc_id,
        segment,
        char_start,
        char_end,
        logprob::double as logprob,
        -- Pieces of one character share its span: only behind the last one does a text end.
        coalesce(lead(char_start) over request >= char_end, true) as ends_text
    from tokens
    where
        problem = $problem
        and condition = $condition
        and model_id in ($model_a, $model_b)
    window request as (partition by model_id, doc_id, segment order by position)
),

ends as (
    select doc_id, segment, char_end as span_end
    from scored
    where ends_text
    group by doc_id, segment, char_end
    having count(distinct model_id) = 2
),

spans as (
    select
        *,
        lag(span_end) over (partition by doc_id, segment order by span_end) as span_start
    from ends
),

sums as (
    select
        scored.doc_id,
        scored.segment,
        spans.span_end,
        coalesce(any_value(spans.span_start), min(scored.char_start)) as span_start,
        count(*) filter (where scored.model_id = $model_a) as tokens_a,
        count(*) filter (where scored.model_id = $model_b) as tokens_b,
        sum(scored.logprob) filter (where scored.model_id = $model_a) as logprob_a,
        sum(scored.logprob) filter (where scored.model_id = $model_b) as logprob_b
    from scored
    -- the first such end behind a token
    asof inner join spans
        on scored.doc_id = spans.doc_id
        and scored.segment = spans.segment
        and scored.char_end <= spans.span_end
    group by scored.doc_id, scored.segment, spans.span_end
    -- before the first end, both must have scored from the same character on
    having any_value(spans.span_start) is not null
        or min(scored.char_start) filter (where scored.model_id = $model_a)
        = min(scored.char_start) filter (where scored.model_id = $model_b)
),

strongest as (
    select *, logprob_a - logprob_b as difference
    from sums
    where tokens_a > 0 and tokens_b > 0
    order by abs(difference) desc, doc_id, span_start
    limit $limit
)

select
    token_text(doc_id, span_start, span_end, $problem) as text,
    tokens_a,
    tokens_b,
    exp(logprob_a) as probability_a,
    exp(logprob_b) as probability_b,
    difference,
    document_name(doc_id, $problem) as document,
    context_snippet(doc_id, span_start, span_end, $problem, width := 28) as words
from strongest
order by abs(difference) desc, doc_id, span_start
