{%- set thresholds = {} %}
{%- for alpha in [0.1, 0.25, 0.5, 1, 1.5, 2, 3] %}
{%- for beta in [-1, -2, -4] %}
    {%- do thresholds.update({'alpha_' ~ alpha ~ '_beta_' ~ beta: {
        'where': 'gain > ' ~ alpha ~ ' and nll < ' ~ -beta
    }}) %}
{%- endfor %}
{%- endfor %}
{%- set variants = declare_variants(
    over = 'key_tokens',
    settings = {'numerator': 'sum(nll)', 'transform': 'exp', 'min_tokens': 10},
    aggregations = {'_by_length': 'weighted', '_macro': 'macro'},
    variants = {
        'alpha_0.5_beta_-2': thresholds.pop('alpha_0.5_beta_-2'),
        'alpha_2_beta_-2': thresholds.pop('alpha_2_beta_-2'),
    },
    grid = thresholds,
    code = local_md5(model.raw_code),
) %}
{%- set filters = variants | map(attribute = 'where') | unique(case_sensitive=true) | list -%}

with units as (
    select * from {{ ref('token_units') }}
),

-- Read once for each filter: one copy in memory would contain every token.
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

-- The filter of a variant finds the key tokens …
key_tokens as (
    {%- for filter in filters %}
    select
        '{{ filter }}' as key_filter,
        unit_id,
        sum(nll) as nll,
        count(*) as tokens
    from tokens
    where {{ filter }}
    group by unit_id
    {{ 'union all' if not loop.last }}
    {%- endfor %}
),

-- … and tokens that are pieces of one character are key together.
pieces as (
    {%- for filter in filters %}
    select
        '{{ filter }}' as key_filter,
        unit_id,
        position,
        nll,
        char_start,
        char_end,
        coalesce({{ filter }}, false) as is_key
    from tokens
    where shares_character
    {{ 'union all' if not loop.last }}
    {%- endfor %}
),

-- A character has at most four bytes, so its pieces are near each other.
offsets as (
    select unnest(range(-8, 9)) as tokens_further
),

further_pieces as (
    select distinct
        pieces.key_filter,
        pieces.unit_id,
        pieces.position,
        pieces.nll
    from pieces
    cross join offsets
    inner join pieces as key_pieces
        on pieces.key_filter = key_pieces.key_filter
        and pieces.unit_id = key_pieces.unit_id
        and pieces.position + offsets.tokens_further = key_pieces.position
    where key_pieces.is_key
        and not pieces.is_key
        and key_pieces.char_start <= pieces.char_start
        and key_pieces.char_end >= pieces.char_end
),

parts as (
    select * from key_tokens
    union all by name
    select
        key_filter,
        unit_id,
        sum(nll) as nll,
        count(*) as tokens
    from further_pieces
    group by key_filter, unit_id
),

sums as (
    select
        key_filter,
        unit_id,
        sum(nll) as numerator,
        cast(sum(tokens) as bigint) as tokens
    from parts
    group by key_filter, unit_id
),

longppl as (
    select
        units.problem,
        'longppl' as metric,
        concat(variants.variant, '@', units.pair) as variant,
        units.model_id,
        units.doc_id,
        sums.numerator,
        cast(sums.tokens as double) as denominator,
        cast(units.document_tokens as double) as weight,
        sums.tokens
    from sums
    inner join units using (unit_id)
    inner join variants using (key_filter)
)

select * from longppl
