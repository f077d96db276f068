-- Tokens with the highest mean gain over all their occurrences
-- Averages over occurrences are less noisy than single tokens.
-- param problem  -- which problem
-- param model  -- model_id
-- param short  -- the short-context condition
-- param least = 5  -- fewest occurrences
-- param limit = 20  -- how many
with by_token as (
    select
        token_id,
        count(*) as occurrences,
        count(distinct doc_id) as documents,
        avg(gain) as mean_gain,
        sum(gain) as total_gain,
        arg_max((doc_id, char_start, char_end), gain) as best
    from paired_tokens($problem, $short)
    where model_id = $model
    group by token_id
    having count(*) >= $least
    order by mean_gain desc, token_id
    limit $limit
)

select
    token_text(best[1], best[2], best[3], $problem) as token,
    occurrences,
    documents,
    mean_gain,
    total_gain,
    context_snippet(best[1], best[2], best[3], $problem, width := 28) as words_of_highest_gain
from by_token
order by mean_gain desc, token_id
