{{ config(materialized = 'table') }}

-- The filter of a variant finds the key tokens; the pieces of one character are key together.

with units as (
    select * from {{ ref('token_units') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
    where metric = 'longppl'
),

tokens as (
    select * from {{ ref('fct_tokens') }}
),

key_tokens as (
    {%- for filter, _ in variants(metric = 'longppl') | groupby('where_clause')
        or [('false', [])] %}
    select
        '{{ filter }}' as where_clause,
        unit_id,
        position,
        nll,
        char_start,
        char_end,
        shares_character
    from tokens
    where {{ filter }}
    {{ 'union all' if not loop.last }}
    {%- endfor %}
),

-- A character has at most four bytes, so its pieces are near each other.
offsets as (
    select unnest(range(-8, 9)) as tokens_further
),

pieces as (
    select
        key_tokens.where_clause,
        key_tokens.unit_id,
        tokens.position,
        tokens.nll
    from key_tokens
    cross join offsets
    inner join tokens
        on key_tokens.unit_id = tokens.unit_id
        and key_tokens.position + offsets.tokens_further = tokens.position
    where key_tokens.shares_character
        and tokens.shares_character
        and key_tokens.char_start <= tokens.char_start
        and key_tokens.char_end >= tokens.char_end
),

with_pieces as (
    select
        where_clause,
        unit_id,
        position,
        nll
    from key_tokens
    union
    select * from pieces
),

sums as (
    select
        where_clause,
        unit_id,
        sum(nll) as numerator,
        count(*) as tokens
    from with_pieces
    group by where_clause, unit_id
),

longppl as (
    select
        units.problem,
        variants.metric,
        concat(variants.variant, '@', units.pair) as variant,
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
        on sums.where_clause = variants.where_clause
        and sums.tokens >= variants.min_document_tokens
)

select * from longppl
