-- The largest checkpoint of a problem (or `--vars '{evaluator: MODEL_ID}'`) finds the key tokens.
-- Where it is not extracted there is no value, and no other model takes its place. Key text that an
-- evaluator found elsewhere is imported (`tokenmart data import --format key-intervals`).
{%- set variants = declare_variants(
    over = 'evaluator_key_tokens',
    settings = {'numerator': 'sum(nll)', 'transform': 'exp', 'min_tokens': 10},
    aggregations = {'_by_length': 'weighted'},
    variants = {
        'largest_alpha_2_beta_-2': {'where': 'gain > 2 and nll < 2'},
        'published': {'over': 'published_key_text'},
    },
    grid = {
        'largest_alpha_0.5_beta_-2': {'where': 'gain > 0.5 and nll < 2'},
        'largest_alpha_1_beta_-2': {'where': 'gain > 1 and nll < 2'},
    },
    code = local_md5(model.raw_code),
) %}

with units as (
    select * from {{ ref('token_units') }}
),

-- Read twice, each time with a filter of its own: one copy in memory would contain every token.
tokens as not materialized (
    select * from {{ ref('fct_tokens') }}
),

variants as (
    select listed.* from (
        values
        {%- for row in variants %}
        ('{{ row.variant }}', '{{ row.where }}'){{ ',' if not loop.last }}
        {%- endfor %}
    ) as listed (variant, key_filter)
),

imported as (
    select * from {{ source('extract', 'key_intervals') }}
),

evaluator_units as (
    select * from units
    where is_evaluator and pair is not null
),

evaluator_tokens as (
    select tokens.* from tokens
    inner join evaluator_units
        on tokens.unit_id = evaluator_units.unit_id
),

key_tokens as (
    {%- for filter, _ in variants | selectattr('over', 'eq', 'evaluator_key_tokens')
        | groupby('where', case_sensitive=true) %}
    select
        '{{ filter }}' as key_filter,
        unit_id,
        position,
        char_start,
        char_end
    from evaluator_tokens
    where {{ filter }}
    {{ 'union all' if not loop.last }}
    {%- endfor %}
),

with_previous as (
    select
        *,
        lag(char_end) over (partition by key_filter, unit_id order by position) as previous_end
    from key_tokens
),

-- Touching key tokens form one interval, as in the paper's code.
numbered as (
    select
        *,
        count(*) filter (where char_start is distinct from previous_end) over (
            partition by key_filter, unit_id
            order by position
        ) as number
    from with_previous
),

own_intervals as (
    select
        key_filter,
        unit_id,
        min(char_start) as interval_start,
        max(char_end) as interval_end
    from numbered
    group by key_filter, unit_id, number
),

intervals as (
    select
        own_intervals.key_filter,
        evaluator_units.pair as suffix,
        evaluator_units.problem,
        evaluator_units.doc_id,
        own_intervals.interval_start,
        own_intervals.interval_end
    from own_intervals
    inner join evaluator_units
        on own_intervals.unit_id = evaluator_units.unit_id
    union all by name
    select
        'true' as key_filter,
        evaluator as suffix,
        problem,
        doc_id,
        char_start as interval_start,
        char_end as interval_end
    from imported
),

characters as (
    select
        *,
        unnest(generate_series(interval_start, interval_end)) as character
    from intervals
),

-- One row per character, with the furthest end of an interval that holds it.
key_characters as (
    select
        key_filter,
        suffix,
        problem,
        doc_id,
        character,
        max(interval_end) as interval_end
    from characters
    group by key_filter, suffix, problem, doc_id, character
),

sums as (
    select
        key_characters.key_filter,
        key_characters.suffix,
        tokens.unit_id,
        sum(tokens.nll) as numerator,
        count(*) as tokens
    from tokens
    inner join key_characters
        on tokens.problem = key_characters.problem
        and tokens.doc_id = key_characters.doc_id
        and tokens.char_start = key_characters.character
        and tokens.char_end <= key_characters.interval_end
    where tokens.is_first_pair
    group by key_characters.key_filter, key_characters.suffix, tokens.unit_id
),

longppl_external as (
    select
        units.problem,
        'longppl_external' as metric,
        concat(variants.variant, '@', sums.suffix) as variant,
        units.model_id,
        units.doc_id,
        sums.numerator,
        cast(sums.tokens as double) as denominator,
        cast(units.document_tokens as double) as weight,
        sums.tokens
    from sums
    inner join units
        on sums.unit_id = units.unit_id
    inner join variants
        on sums.key_filter = variants.key_filter
)

select * from longppl_external
