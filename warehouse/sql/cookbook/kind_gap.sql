-- Gap between two models by kind of text, in bits per byte
-- Below zero: model_a needs fewer bits. Tokens are summed over the shortest characters that both
-- tokenizers end at. stderr is over documents and needs two of them; a gap within two of them of
-- zero may be chance. `by = position` has bands of the byte at which a text begins, in powers of
-- two, in place of kinds. Code is text with a character such as `{`, `=` or `_`.
-- param problem  -- which problem
-- param model_a  -- model_id
-- param model_b  -- model_id
-- param condition  -- which context condition
-- param by = kind  -- kind or position
with scored as (
    select
        model_id,
        doc_id,
        segment,
        char_start,
        char_end,
        logprob::double as logprob,
        -- Pieces of one character share its span: only behind the last one does a text end.
        coalesce(lead(char_start) over request >= char_end, true) as ends_text
    from tokens
    where
        problem = $problem
        and condition = $condition
        and model_id in ($model_a, $model_b)
    window request as (partition by model_id, doc_id, segment order by position)
),

ends as (
    select doc_id, segment, char_end as span_end
    from scored
    where ends_text
    group by doc_id, segment, char_end
    having count(distinct model_id) = 2
),

spans as (
    select
        *,
        lag(span_end) over (partition by doc_id, segment order by span_end) as span_start
    from ends
),

sums as (
    select
        scored.doc_id,
        spans.span_end,
        coalesce(any_value(spans.span_start), min(scored.char_start)) as span_start,
        -sum(scored.logprob) filter (where scored.model_id = $model_a) / ln(2) as bits_a,
        -sum(scored.logprob) filter (where scored.model_id = $model_b) / ln(2) as bits_b
    from scored
    -- the first such end behind a token
    asof inner join spans
        on scored.doc_id = spans.doc_id
        and scored.segment = spans.segment
        and scored.char_end <= spans.span_end
    group by scored.doc_id, scored.segment, spans.span_end
    -- before the first end, both must have scored from the same character on
    having bits_a is not null and bits_b is not null and (
        any_value(spans.span_start) is not null
        or min(scored.char_start) filter (where scored.model_id = $model_a)
        = min(scored.char_start) filter (where scored.model_id = $model_b)
    )
),

texts as (
    select
        sums.*,
        substring(documents.text, span_start + 1, span_end - span_start) as part,
        concat(
            regexp_extract(
                substring(documents.text, greatest(span_start - 199, 1), least(span_start, 200)),
                '\S*$'
            ),
            part,
            regexp_extract(substring(documents.text, span_end + 1, 200), '^\S*')
        ) as words_around,
        strlen(substring(documents.text, 1, span_start)) as first_byte
    from sums
    inner join documents on sums.doc_id = documents.doc_id and documents.problem = $problem
),

kinds as (
    select
        *,
        strlen(part) as bytes,
        case
            when $by = 'position'
                then format('from byte {:d}', if(first_byte = 0, 0, 2 ** floor(log2(first_byte)))::bigint)
            when not regexp_matches(part, '\S') then 'white space'
            when regexp_matches(words_around, '://|www\.') then 'URL'
            when regexp_matches(part, '[^\x00-\x7F]') then 'non-ASCII'
            when regexp_matches(part, '[0-9]') then 'number'
            when regexp_matches(part, '[{}()\[\]<>=;_`$\\|/*#@&~^]') then 'code'
            when regexp_matches(part, '[A-Za-z]') then 'word'
            else 'punctuation'
        end as kind
    from texts
),

by_document as (
    select
        kind,
        doc_id,
        sum(bytes) as bytes,
        sum(bits_a) as bits_a,
        sum(bits_b) as bits_b
    from kinds
    group by kind, doc_id
),

ratios as (
    select
        *,
        sum(bits_a - bits_b) over same_kind / sum(bytes) over same_kind as ratio
    from by_document
    window same_kind as (partition by kind)
)

select
    kind,
    sum(bytes)::bigint as bytes,
    count(*) as documents,
    sum(bits_a) / sum(bytes) as bits_per_byte_a,
    sum(bits_b) / sum(bytes) as bits_per_byte_b,
    any_value(ratio) as gap,
    -- of a ratio of sums over documents
    case
        when count(*) > 1
            then sqrt(
                count(*) / (count(*) - 1) * sum((bits_a - bits_b - ratio * bytes) ** 2)
            ) / sum(bytes)
    end as stderr
from ratios
where bytes > 0
group by kind
order by abs(gap) desc, kind
