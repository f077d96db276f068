-- What a scored token can't be: the code and the rule that it breaks, null if it breaks none. An
-- import, `tokenmart data check` and dbt's data tests read the rules here. Null columns, which an
-- import may lack, break none.
--
-- `slack`: by how much numbers in float32 of another program may exceed a limit.

create or replace macro main.broken_token_rule(
    logprob, rank, top_logprob, entropy, slack := 0.0
) as case
    when logprob is null then 'gap: logprob is given'
    when not isfinite(logprob) then 'not-finite: logprob is finite'
    when logprob > slack then 'positive-logprob: logprob <= 0'
    when rank < 1 then 'wrong-rank: rank >= 1'
    when not isfinite(top_logprob) or not top_logprob between logprob - slack and slack
        then 'wrong-top-logprob: logprob <= top_logprob <= 0'
    when not isfinite(entropy) or entropy < 0 then 'wrong-entropy: entropy >= 0, finite'
end;

-- Limits between columns. A token of rank r has the top-1 token and r - 2 others above it, each at
-- least as probable as itself; and the entropy is at least -ln of the largest probability.
create or replace macro main.contradicting_token_rule(
    logprob, rank, top_logprob, entropy, vocabulary
) as case
    when rank * exp(logprob::double) > 1.001 then 'rank-and-logprob: logprob <= -ln(rank)'
    when rank = 1 and abs(top_logprob - logprob) > 0.001
        then 'rank-and-top-logprob: top_logprob = logprob where rank = 1'
    when rank > 1 and exp(top_logprob::double) + (rank - 1) * exp(logprob::double) > 1.001
        then 'rank-and-top-logprob: the probabilities of top-1 and better ranks are at most 1'
    when entropy < -top_logprob - 0.01 then 'entropy-and-top-logprob: entropy >= -top_logprob'
    when entropy > ln(vocabulary) + 0.01 then 'entropy-and-vocabulary: entropy <= ln(vocabulary)'
    when rank > vocabulary then 'rank-and-vocabulary: rank <= vocabulary'
end;
