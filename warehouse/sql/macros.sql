-- The field's terms as DuckDB macros, for ad-hoc queries here and in the database that dbt builds:
--
--     select model_id, ppl(logprob) from tokens where condition = 'full' group by all;
--     select token_text(doc_id, char_start, char_end), gain from context_pairs limit 20;
--     select model_id, avg(gain) from paired_tokens('minilong', 'window_512') group by all;
--
-- The text macros take the problem as a last argument; without it the first document of that
-- number answers, which is right as long as the warehouse holds one problem.

create or replace macro main.ppl(logprobs) as exp(-avg(logprobs::double));

create or replace macro main.bits_per_byte(logprobs, bytes) as
    -sum(logprobs::double) / ln(2) / sum(bytes);

create or replace macro main.gain(long_logprob, short_logprob) as
    long_logprob::double - short_logprob::double;

-- Tokens scored both after the whole document and in a condition with less context.
create or replace macro main.paired_tokens(problem_name, short_condition) as table
    select
        long.model_id,
        long.doc_id,
        long.position,
        long.token_id,
        long.char_start,
        long.char_end,
        long.context_tokens,
        short.context_tokens as short_context_tokens,
        long.logprob,
        short.logprob as short_logprob,
        long.rank,
        short.rank as short_rank,
        main.gain(long.logprob, short.logprob) as gain
    from main.tokens as long
    inner join main.tokens as short
        on long.model_id = short.model_id
        and long.doc_id = short.doc_id
        and long.position = short.position
    where long.problem = problem_name
        and short.problem = problem_name
        and long.condition = 'full'
        and short.condition = short_condition;

create or replace macro main.document_name(document, problem_name := null) as (
    select min_by(d.name, d.problem)
    from main.documents as d
    where d.doc_id = document and coalesce(d.problem = problem_name, true)
);

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

-- Rank correlations of two columns, as aggregates:
--
--     select metric, variant, spearman(value, score) from metric_values join downstream_scores …
--
-- Rows where either is null or not finite are left out. Ties share the mean of their ranks
-- (spearman), or count for neither order (kendall: tau-b). Null for fewer than three rows and for
-- a constant column. Made for models: the time grows with the square of the rows in a group.
create or replace macro main.list_ranks(numbers) as
    list_transform(
        numbers,
        lambda own: (
            len(list_filter(numbers, lambda other: other < own))
            + len(list_filter(numbers, lambda other: other <= own))
            + 1
        ) / 2
    );

create or replace macro main.list_centred(numbers) as
    list_transform(numbers, lambda own: own - list_sum(numbers) / len(numbers));

create or replace macro main.list_signs(numbers) as
    flatten(
        list_transform(
            numbers, lambda own: list_transform(numbers, lambda other: sign(own - other)::double)
        )
    );

create or replace macro main.list_cosine(left_numbers, right_numbers) as
    list_inner_product(left_numbers, right_numbers) / nullif(
        sqrt(list_inner_product(left_numbers, left_numbers))
        * sqrt(list_inner_product(right_numbers, right_numbers)),
        0
    );

create or replace macro main.spearman(x, y) as (
    case
        when count(*) filter (where isfinite(x::double) and isfinite(y::double)) >= 3
            then main.list_cosine(
                main.list_centred(main.list_ranks(
                    list(x::double) filter (where isfinite(x::double) and isfinite(y::double))
                )),
                main.list_centred(main.list_ranks(
                    list(y::double) filter (where isfinite(x::double) and isfinite(y::double))
                ))
            )
    end
);

create or replace macro main.kendall(x, y) as (
    case
        when count(*) filter (where isfinite(x::double) and isfinite(y::double)) >= 3
            then main.list_cosine(
                main.list_signs(
                    list(x::double) filter (where isfinite(x::double) and isfinite(y::double))
                ),
                main.list_signs(
                    list(y::double) filter (where isfinite(x::double) and isfinite(y::double))
                )
            )
    end
);

-- A text without what the patterns match, one after the other; null for a pattern that RE2, which
-- DuckDB searches with, doesn't know.
create or replace macro main.without_matches(text, patterns) as
    try(
        list_reduce(
            list_prepend(text, patterns),
            lambda kept, pattern: regexp_replace(kept, pattern, '', 'g')
        )
    );

-- A text less what a task's exact_match ignores; `settings` is its JSON object.
create or replace macro main.as_compared(text, settings) as
    main.without_matches(
        list_transform(
            [main.without_matches(
                text, coalesce((settings -> 'regexes_to_ignore')::varchar[], [])
            )],
            lambda kept: if(settings ->> 'ignore_case' = 'true', lower(kept), kept)
        )[1],
        if(settings ->> 'ignore_punctuation' = 'true', ['[[:punct:]]'], [])
        || if(settings ->> 'ignore_numbers' = 'true', ['[0-9]'], [])
    );
