-- NLL and context gain by kind of token
-- mean_gain is over tokens_with_gain, those that both contexts scored; all else is over tokens.
-- Kinds by spelling: number, name (capital inside the text), word, punctuation, white space.
-- param problem  -- which problem
-- param short  -- the short-context condition
with spelled as (
    select
        long.model_id,
        -long.logprob::double as nll,
        long.rank,
        long.logprob::double - short.logprob::double as gain,
        substring(documents.text, long.char_start + 1, long.char_end - long.char_start) as token
    from tokens as long
    inner join documents using (problem, doc_id)
    left join tokens as short
        on
            long.problem = short.problem
            and long.model_id = short.model_id
            and long.doc_id = short.doc_id
            and long.position = short.position
            and short.condition = $short
    where
        long.problem = $problem
        and long.condition = 'full'
)

select
    model_id,
    case
        when regexp_matches(token, '[0-9]') then 'number'
        when regexp_matches(token, '^\s*\p{Lu}') then 'name'
        when regexp_matches(token, '\p{L}') then 'word'
        when regexp_matches(token, '\S') then 'punctuation'
        else 'white space'
    end as kind,
    count(*) as tokens,
    avg(nll) as nll,
    avg((rank = 1)::integer) as top_1,
    avg(gain) as mean_gain,
    count(gain) as tokens_with_gain
from spelled
group by all
order by model_id, nll desc, kind
