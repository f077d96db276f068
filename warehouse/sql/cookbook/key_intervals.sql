-- Characters of LongPPL's key tokens, as `tokenmart data import --format key-intervals` reads them
-- Touching key tokens are one interval. Save it with `--out intervals.csv`.
-- param problem  -- which problem
-- param model  -- the evaluator
-- param short  -- the short-context condition
-- param alpha = 2.0  -- least gain, in nats
-- param beta = -2.0  -- least log-prob with full context
with keys as (
    select
        doc_id,
        position,
        char_start,
        char_end,
        lag(char_end) over (partition by doc_id order by position) as previous_end
    from paired_tokens($problem, $short)
    where model_id = $model and gain > $alpha and logprob > $beta
),

numbered as (
    select
        *,
        count(*) filter (where char_start is distinct from previous_end) over (
            partition by doc_id
            order by position
        ) as number
    from keys
),

intervals as (
    select
        doc_id,
        min(char_start) as char_start,
        max(char_end) as char_end
    from numbered
    group by doc_id, number
)

select
    documents.sha256 as document_sha256,
    intervals.char_start,
    intervals.char_end
from intervals
inner join documents
    on documents.problem = $problem and intervals.doc_id = documents.doc_id
order by intervals.doc_id, intervals.char_start
