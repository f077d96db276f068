with context_pairs as (
    select * from {{ ref('int_context_pairs') }}
),

units as (
    select * from {{ ref('int_pair_units') }}
),

with_gain as (
    select
        units.problem,
        units.model_id,
        units.condition,
        units.long_condition,
        units.short_condition,
        units.doc_id,
        context_pairs.position,
        context_pairs.context_tokens,
        context_pairs.short_context_tokens,
        context_pairs.token_id,
        context_pairs.char_start,
        context_pairs.char_end,
        context_pairs.logprob,
        context_pairs.short_logprob,
        context_pairs.entropy,
        context_pairs.short_entropy,
        context_pairs.rank,
        context_pairs.short_rank,
        cast(context_pairs.logprob as double)
        - cast(context_pairs.short_logprob as double) as gain
    from context_pairs
    inner join units
        on context_pairs.unit_id = units.unit_id
)

select * from with_gain
