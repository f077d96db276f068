-- Perplexity and bits per byte of each model, over tokens with full context
-- Bits per byte compares tokenizers; bytes are those of the text that the scored tokens span.
-- param problem  -- which problem
-- param condition  -- a condition that scores every token
with by_document as (
    select
        tokens.model_id,
        tokens.doc_id,
        count(*) as tokens,
        -sum(tokens.logprob::double) as nll,
        strlen(substring(
            any_value(documents.text),
            min(tokens.char_start) + 1,
            max(tokens.char_end) - min(tokens.char_start)
        )) as bytes
    from tokens
    inner join documents using (problem, doc_id)
    where tokens.problem = $problem and tokens.condition = $condition
    group by tokens.model_id, tokens.doc_id
)

select
    model_id,
    count(*) as documents,
    sum(tokens) as tokens,
    sum(nll) / sum(tokens) as nll_per_token,
    exp(sum(nll) / sum(tokens)) as perplexity,
    avg(nll / tokens) as nll_macro,
    sum(nll) / sum(bytes) / ln(2) as bits_per_byte
from by_document
group by model_id
order by bits_per_byte, model_id
