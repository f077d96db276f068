-- The field's terms as DuckDB macros, for ad-hoc queries here and in the database that dbt builds:
--
--     select model_id, ppl(logprob) from tokens where condition = 'full' group by all;
--     select token_text(doc_id, char_start, char_end, problem), gain from fct_tokens limit 20;
--     select model_id, avg(gain) from paired_tokens('minilong', 'window_512') group by all;
--
-- DuckDB puts the arguments into a macro's text as they are written: a column `doc_id` of a user's
-- query would be read as the macro's own `doc_id`, and an alias `d` as its own `d`. So whatever an
-- argument could meet inside a macro has a name that begins with `macro_` (variables of a lambda
-- need none: DuckDB keeps them apart).

create or replace macro main.ppl(logprobs) as exp(-avg(logprobs::double));

-- `bytes` counts every byte of the text once, as `token_features.bytes` does: a character that
-- several tokens share belongs to the first of them that reaches its end, what no token contains to
-- the token behind it.
create or replace macro main.bits_per_byte(logprobs, bytes) as
    -sum(logprobs::double) / ln(2) / sum(bytes);

create or replace macro main.gain(long_logprob, short_logprob) as
    long_logprob::double - short_logprob::double;

-- Tokens scored both after the whole document and in a condition with less context.
create or replace macro main.paired_tokens(problem_name, short_condition) as table
    select
        macro_long.model_id,
        macro_long.doc_id,
        macro_long.position,
        macro_long.token_id,
        macro_long.char_start,
        macro_long.char_end,
        macro_long.context_tokens,
        macro_short.context_tokens as short_context_tokens,
        macro_long.logprob,
        macro_short.logprob as short_logprob,
        macro_long.rank,
        macro_short.rank as short_rank,
        main.gain(macro_long.logprob, macro_short.logprob) as gain
    from main.tokens as macro_long
    inner join main.tokens as macro_short using (problem, model_id, doc_id, position)
    where macro_long.problem = problem_name
        and macro_long.condition = 'full'
        and macro_short.condition = short_condition;

-- A document's name; null where the problem has no such document.
create or replace macro main.document_name(document, problem_name) as (
    select any_value(macro_name)
    from (
        select problem as macro_problem, doc_id as macro_doc_id, name as macro_name
        from main.documents
    ) as macro_documents
    where macro_doc_id = document and macro_problem = problem_name
);

-- The characters [first, past) of a document.
create or replace macro main.token_text(document, first, past, problem_name) as (
    select substring(any_value(macro_text), first + 1, past - first)
    from (
        select problem as macro_problem, doc_id as macro_doc_id, text as macro_text
        from main.documents
    ) as macro_documents
    where macro_doc_id = document and macro_problem = problem_name
);

-- The same in brackets, with `width` characters before and after.
create or replace macro main.context_snippet(
    document, first, past, problem_name, width := 40
) as (
    select
        substring(any_value(macro_text), greatest(first - width, 0) + 1,
            first - greatest(first - width, 0))
        || '['
        || substring(any_value(macro_text), first + 1, past - first)
        || ']'
        || substring(any_value(macro_text), past + 1, width)
    from (
        select problem as macro_problem, doc_id as macro_doc_id, text as macro_text
        from main.documents
    ) as macro_documents
    where macro_doc_id = document and macro_problem = problem_name
);

-- Rank correlations of two columns, as aggregates:
--
--     select metric, variant, spearman(value, score) from metric_values join downstream_scores …
--
-- Rows where either is null or not finite are left out. Ties share the mean of their ranks
-- (spearman), or count for neither order (kendall: tau-b). Null for fewer than three rows and for
-- a constant column. Made for models: the time grows with the square of the rows in a group.
--
-- The rank of a number is (below + not above + 1) / 2, and the mean of n ranks is (n + 1) / 2. Ranks
-- are centred here and not by a second macro: DuckDB would compute them again for each row.
create or replace macro main.list_centred_ranks(numbers) as
    list_transform(
        numbers,
        lambda own: (
            len(list_filter(numbers, lambda other: other < own))
            + len(list_filter(numbers, lambda other: other <= own))
            - len(numbers)
        ) / 2
    );

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

create or replace macro main.list_finite(x, y) as
    list(x::double) filter (where isfinite(x::double) and isfinite(y::double));

create or replace macro main.spearman(x, y) as (
    case
        when len(main.list_finite(x, y)) >= 3
            then main.list_cosine(
                main.list_centred_ranks(main.list_finite(x, y)),
                main.list_centred_ranks(main.list_finite(y, x))
            )
    end
);

create or replace macro main.kendall(x, y) as (
    case
        when len(main.list_finite(x, y)) >= 3
            then main.list_cosine(
                main.list_signs(main.list_finite(x, y)),
                main.list_signs(main.list_finite(y, x))
            )
    end
);
