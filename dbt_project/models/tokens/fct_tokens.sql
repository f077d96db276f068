{{ config(
    materialized = 'incremental',
    pre_hook = [
        "{% if is_incremental() %}
            delete from {{ this }}
            where unit_id not in (select unit_id from {{ ref('token_units') }})
        {% endif %}",
        "{{ choose_first_part() }}",
    ],
    post_hook = "{{ build_further_parts() }}",
) }}

{%- set is_new = 'true' -%}
{%- if is_incremental() -%}
    {%- set is_new = 'unit_id not in (select distinct built.unit_id from ' ~ this ~ ' as built)' -%}
{%- endif %}

with units as (
    select * from {{ ref('token_units') }}
    where {{ is_new }}
        and {{ in_part() }}
),

-- Read twice, each time with a filter of its own: one copy in memory would hold every token.
tokens as not materialized (
    select * from {{ source('extract', 'tokens') }}
    where {{ in_part() }}
),

features as (
    select * from {{ ref('token_features') }}
),

in_full_context as (
    select
        tokens.*,
        units.* exclude (problem, model_id, condition, doc_id)
    from tokens
    inner join units using (problem, model_id, condition, doc_id)
),

in_short_context as (
    select
        units.unit_id,
        tokens.position,
        tokens.context_tokens,
        tokens.logprob,
        tokens.entropy,
        tokens.rank
    from tokens
    inner join units
        on tokens.problem = units.problem
        and tokens.model_id = units.model_id
        and tokens.condition = units.short_condition
        and tokens.doc_id = units.doc_id
),

fct_tokens as (
    select
        full_context.unit_id,
        full_context.problem,
        full_context.model_id,
        full_context.doc_id,
        full_context.position,
        full_context.pair,
        full_context.is_first_pair,
        full_context.document_tokens,
        full_context.text_characters,
        full_context.token_id,
        full_context.char_start,
        full_context.char_end,
        features.byte_start,
        features.byte_end,
        features.bytes,
        features.shares_character,
        full_context.context_tokens,
        -cast(full_context.logprob as double) as nll,
        full_context.entropy,
        full_context.varentropy,
        full_context.rank,
        full_context.top_logprob,
        short_context.context_tokens as short_context_tokens,
        -cast(short_context.logprob as double) as short_nll,
        short_context.entropy as short_entropy,
        short_context.rank as short_rank,
        if(
            short_context.context_tokens < full_context.context_tokens,
            cast(full_context.logprob as double) - cast(short_context.logprob as double),
            null
        ) as gain,
        coalesce(
            full_context.char_start >= full_context.common_start
            and full_context.char_end <= full_context.common_end,
            false
        ) as is_common,
        features.word_frequency,
        features.is_first_of_word,
        features.is_number,
        features.is_capitalised,
        features.is_name,
        features.word_distance,
        features.word_distance_characters,
        features.bigram_distance,
        features.fourgram_distance
    from in_full_context as full_context
    left join in_short_context as short_context using (unit_id, position)
    left join features using (tokenization_id, position)
    -- A token has one row in its first pair, scored in the short context or not, and one more for
    -- each further short context that scored it. is_first_pair counts tokens once.
    where full_context.is_first_pair
        or short_context.unit_id is not null
)

select * from fct_tokens
