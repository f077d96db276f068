-- Coverage of extraction: documents, rows and tokens per model and condition
-- Reads the ledger only. Models with missing documents can't be compared on that condition.
-- param problem  -- which problem
select
    model_id,
    condition,
    count(*) filter (where status = 'done') as documents,
    count(*) filter (where status = 'failed') as failed,
    sum(rows) as rows,
    sum(document_tokens) as document_tokens,
    bool_or(document_tokens < document_tokens_total) as truncated
from units
where problem = $problem
group by model_id, condition
order by model_id, condition
