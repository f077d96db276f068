-- Difference of models in bits per byte, document by document
-- Documents are the unit: z beyond 2 or so is more than their noise. stderr needs two documents, z
-- five: a standard error of fewer is too uncertain.
-- param problem  -- which problem
-- param condition  -- which context condition
-- param model  -- the reference model
with by_document as (
    select
        tokens.model_id,
        tokens.doc_id,
        -sum(tokens.logprob::double) / ln(2)
        / strlen(substring(
            any_value(documents.text),
            min(tokens.char_start) + 1,
            max(tokens.char_end) - min(tokens.char_start)
        )) as bits_per_byte
    from tokens
    inner join documents using (problem, doc_id)
    where tokens.problem = $problem and tokens.condition = $condition
    group by tokens.model_id, tokens.doc_id
),

pairs as (
    select
        other.model_id,
        other.bits_per_byte - base.bits_per_byte as difference
    from by_document as base
    inner join by_document as other
        on base.doc_id = other.doc_id and base.model_id != other.model_id
    where base.model_id = $model
)

select
    model_id,
    count(*) as documents,
    avg(difference) as difference,
    stddev_samp(difference) / sqrt(count(*)) as stderr,
    case
        when count(*) >= 5
            then avg(difference) / nullif(stddev_samp(difference) / sqrt(count(*)), 0)
    end as z,
    count(*) filter (where difference > 0) as documents_worse
from pairs
group by model_id
order by difference, model_id
