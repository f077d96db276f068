with items as (
    select * from {{ ref('stg_eval_items') }}
    where request_type = 'generate_until'
),

answers as (
    select * from {{ ref('stg_eval_answers') }}
),

units as (
    select * from {{ ref('stg_eval_units') }}
),

answered as (
    select
        items.*,
        answers.model_id,
        answers.filter,
        answers.backend,
        coalesce(answers.answer, '') as found
    from items
    inner join answers
        on items.problem = answers.problem
        and items.condition = answers.condition
        and items.doc_id = answers.doc_id
        and items.segment = answers.segment
    left join units
        on answers.problem = units.problem
        and answers.model_id = units.model_id
        and answers.condition = units.condition
        and answers.doc_id = units.doc_id
        and answers.fingerprint = units.fingerprint
        and items.unit_sha256 = units.document_sha256
    where units.fingerprint is not null
        or answers.fingerprint = items.unit_sha256
),

pairs as (
    select
        problem,
        model_id,
        condition,
        item,
        filter,
        segment,
        backend,
        options -> 'exact_match' as settings,
        unnest([found, expected]) as text,
        unnest([true, false]) as is_answer,
        expected
    from answered,
        unnest(cast(gold as varchar[])) as expectations(expected)
),

without_ignored as (
    select
        *,
        main.without_matches(
            text, coalesce(cast(settings -> 'regexes_to_ignore' as varchar[]), [])
        ) as kept
    from pairs
),

in_case as (
    select
        *,
        if(coalesce(settings ->> 'ignore_case', '') = 'true', lower(kept), kept) as cased
    from without_ignored
),

without_marks as (
    select
        *,
        if(
            coalesce(settings ->> 'ignore_punctuation', '') = 'true',
            regexp_replace(cased, '[[:punct:]]', '', 'g'),
            cased
        ) as unmarked
    from in_case
),

normalised as (
    select
        *,
        if(
            coalesce(settings ->> 'ignore_numbers', '') = 'true',
            regexp_replace(unmarked, '[0-9]', '', 'g'),
            unmarked
        ) as compared
    from without_marks
),

compared as (
    select
        problem,
        model_id,
        condition,
        item,
        filter,
        segment,
        expected,
        any_value(backend) as backend,
        max(compared) filter (where is_answer) = max(compared) filter (where not is_answer)
            as is_equal
    from normalised
    group by problem, model_id, condition, item, filter, segment, expected
),

best as (
    select
        problem,
        model_id,
        condition,
        item,
        filter,
        segment,
        any_value(backend) as backend,
        cast(bool_or(is_equal) as double) as is_match
    from compared
    group by problem, model_id, condition, item, filter, segment
),

matches as (
    select
        problem,
        model_id,
        condition,
        item,
        filter,
        any_value(backend) as backend,
        avg(is_match) as value  -- noqa: RF04
    from best
    where is_match is not null
    group by problem, model_id, condition, item, filter
)

select * from matches
