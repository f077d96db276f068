with units as (
    select * from {{ ref('token_units') }}
    where pair is not null
),

top_tokens as (
    select * replace (cast(logprob as double) as logprob)
    from {{ source('extract', 'top_tokens') }}
),

long_context as (
    select
        top_tokens.*,
        units.unit_id
    from top_tokens
    inner join units using (problem, model_id, condition, doc_id)
),

short_context as (
    select
        top_tokens.*,
        units.unit_id
    from top_tokens
    inner join units
        on top_tokens.problem = units.problem
        and top_tokens.model_id = units.model_id
        and top_tokens.condition = units.short_condition
        and top_tokens.doc_id = units.doc_id
),

scored_in_both as (
    select distinct
        unit_id,
        position
    from short_context
),

-- A token whose choices have nothing in common still counts, with no divergence to see.
choices as (
    select
        long_context.unit_id,
        long_context.position,
        exp(long_context.logprob) as long_probability,
        exp(short_context.logprob) as short_probability,
        long_context.logprob - short_context.logprob as difference
    from long_context
    inner join scored_in_both using (unit_id, position)
    left join short_context using (unit_id, position, choice_id)
),

common as (
    select
        unit_id,
        position,
        coalesce(sum(long_probability * difference), 0) as long_sum,
        coalesce(sum(-short_probability * difference), 0) as short_sum,
        -- the rest as one bin; stored log-probs are rounded, so its share is known to about 1e-5
        greatest(
            1 - coalesce(sum(long_probability) filter (where difference is not null), 0), 1e-5
        ) as long_rest,
        greatest(1 - coalesce(sum(short_probability), 0), 1e-5) as short_rest,
        count(difference) as common_choices
    from choices
    group by unit_id, position
),

choice_divergences as (
    select
        units.problem,
        units.model_id,
        units.pair,
        units.doc_id,
        units.document_tokens,
        count(*) as tokens,
        sum(common.common_choices) as common_choices,
        sum(common.long_sum + common.long_rest * ln(common.long_rest / common.short_rest))
            as long_to_short,
        sum(common.short_sum + common.short_rest * ln(common.short_rest / common.long_rest))
            as short_to_long
    from common
    inner join units using (unit_id)
    group by all
)

select * from choice_divergences
