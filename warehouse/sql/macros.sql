-- The field's terms as DuckDB macros, for ad-hoc queries here and in the database that dbt builds:
--
--     select model_id, ppl(logprob) from tokens where condition = 'full' group by all;
--     select token_text(doc_id, char_start, char_end), gain from context_pairs limit 20;
--
-- The text macros take the problem as a last argument; without it the first document of that
-- number answers, which is right as long as the warehouse holds one problem.

create or replace macro main.ppl(logprobs) as exp(-avg(logprobs::double));

create or replace macro main.bits_per_byte(logprobs, bytes) as
    -sum(logprobs::double) / ln(2) / sum(bytes);

create or replace macro main.gain(long_logprob, short_logprob) as
    long_logprob::double - short_logprob::double;

create or replace macro main.token_text(document, first, past, problem_name := null) as (
    select substring(min_by(d.text, d.problem), first + 1, past - first)
    from main.documents as d
    where d.doc_id = document and coalesce(d.problem = problem_name, true)
);

create or replace macro main.context_snippet(
    document, first, past, width := 40, problem_name := null
) as (
    select concat(
        substring(min_by(d.text, d.problem), greatest(first - width, 0) + 1,
            first - greatest(first - width, 0)),
        '[',
        substring(min_by(d.text, d.problem), first + 1, past - first),
        ']',
        substring(min_by(d.text, d.problem), past + 1, width)
    )
    from main.documents as d
    where d.doc_id = document and coalesce(d.problem = problem_name, true)
);
