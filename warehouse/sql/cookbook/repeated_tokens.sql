-- Mean NLL of first and later occurrences of a token
-- Distance is to the previous occurrence of the same token in the document, in tokens.
-- param problem  -- which problem
with seen as (
    select
        model_id,
        -logprob::double as nll,
        position - lag(position) over (
            partition by model_id, doc_id, token_id
            order by position
        ) as distance
    from tokens
    where problem = $problem and condition = 'full'
)

select
    model_id,
    case
        when distance is null then 'first occurrence'
        when distance < 64 then 'seen < 64 tokens ago'
        when distance < 512 then 'seen 64-511 tokens ago'
        else 'seen >= 512 tokens ago'
    end as occurrence,
    count(*) as tokens,
    avg(nll) as nll
from seen
group by model_id, occurrence
order by model_id, min(distance) nulls first
