-- A view: nothing is computed until a metric of the grid reads it.
{{ config(materialized = 'view') }}

with units as (
    select * from {{ ref('token_units') }}
    where is_first_pair
),

-- Read twice: one copy in memory would contain every token.
tokens as not materialized (
    select * from {{ ref('fct_tokens') }}
    where is_first_pair
),

-- Models that share a tokenizer share a document's tokens: their n-grams are found once. Those of
-- 2 and 4 tokens are features of the token.
n_grams as (
    select
        units.tokenization_id,
        tokens.position,
        tokens.bigram_distance,
        tokens.fourgram_distance,
        hash(1, tokens.token_id) as unigram,
        hash(
            3,
            tokens.token_id,
            lag(tokens.token_id, 1) over document,
            lag(tokens.token_id, 2) over document
        ) as trigram,
        hash(
            5,
            tokens.token_id,
            lag(tokens.token_id, 1) over document,
            lag(tokens.token_id, 2) over document,
            lag(tokens.token_id, 3) over document,
            lag(tokens.token_id, 4) over document
        ) as fivegram
    from tokens
    inner join units using (unit_id)
    where units.is_tokenization
    window document as (partition by units.tokenization_id order by tokens.position)
),

each_n_gram as (
    select
        tokenization_id,
        position,
        unnest([unigram, trigram, fivegram]) as n_gram
    from n_grams
),

first_occurrences as (
    select
        tokenization_id,
        min(position) as position
    from each_n_gram
    group by tokenization_id, n_gram
),

new_n_grams as (
    select
        tokenization_id,
        position,
        count(*) as new
    from first_occurrences
    group by tokenization_id, position
),

-- A repeated n-gram ends with shorter ones that are repeated, so the longest is their number.
token_repeats as (
    select
        n_grams.tokenization_id,
        n_grams.position,
        3 - coalesce(new_n_grams.new, 0)
        + if(n_grams.bigram_distance is null, 0, 1)
        + if(n_grams.fourgram_distance is null, 0, 1) as longest
    from n_grams
    left join new_n_grams using (tokenization_id, position)
),

-- The filter is always true. It needs both tables, so DuckDB joins them before it sums up; sums by
-- position before the join would take twice the time.
repeats as (
    select
        units.unit_id,
        token_repeats.longest,
        sum(tokens.nll) as nll,
        sum(tokens.bytes) as bytes,
        count(*) filter (where tokens.position = token_repeats.position) as tokens
    from tokens
    inner join units using (unit_id)
    inner join token_repeats
        on units.tokenization_id = token_repeats.tokenization_id
        and tokens.position = token_repeats.position
    group by units.unit_id, token_repeats.longest
),

repeat_lengths as (
    select
        units.problem,
        units.model_id,
        units.doc_id,
        units.document_tokens,
        cast(null as varchar) as pair,
        cast(repeats.longest as integer) as longest,
        repeats.nll,
        cast(repeats.bytes as bigint) as bytes,
        repeats.tokens
    from repeats
    inner join units using (unit_id)
)

select * from repeat_lengths
