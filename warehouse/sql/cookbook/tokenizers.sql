-- Characters per token of each tokenizer
-- Models with one tokenizer can be compared token by token.
-- param problem  -- which problem
with spans as (
    select
        model_id,
        doc_id,
        count(*) as tokens,
        max(char_end) - min(char_start) as characters
    from tokens
    where problem = $problem and condition = 'full'
    group by model_id, doc_id
)

select
    models.tokenizer_sha256[:8] as tokenizer,
    bool_or(models.prepends_bos) as prepends_bos,
    count(distinct models.model_id) as models,
    sum(spans.characters) / sum(spans.tokens) as characters_per_token,
    string_agg(distinct models.model_id, ', ' order by models.model_id) as model_ids
from spans
inner join models
    on spans.model_id = models.model_id and models.problem = $problem
group by models.tokenizer_sha256
order by characters_per_token desc, tokenizer
