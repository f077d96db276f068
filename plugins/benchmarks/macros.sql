-- DuckDB macros of benchmarks' models; names as in warehouse/sql/macros.sql.

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
