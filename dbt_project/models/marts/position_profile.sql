with tokens as (
    select * from {{ ref('fct_tokens') }}
),

units as (
    select * from {{ ref('token_units') }}
),

-- Positions 0 to 31, then 32 to 63, 64 to 127, …
octaves as (
    select
        unit_id,
        is_first_pair,
        gain is not null as has_gain,
        greatest(cast(floor(log2(greatest(position, 1))) as integer) + 1, 5) as octave,
        count(*) as tokens,
        sum(nll) as nll_sum,
        sum(short_nll) as short_nll_sum,
        sum(cast(entropy as double)) as entropy_sum,
        -- null for imported log-probs that lack the rank
        sum(cast(rank = 1 as integer)) as top_1
    from tokens
    group by unit_id, is_first_pair, has_gain, octave
),

-- A token counts once in its full context, and in each pair that scored it in both contexts.
sides as (
    select
        * replace (null as short_nll_sum),
        false as is_paired
    from octaves
    where is_first_pair
    union all by name
    select
        *,
        true as is_paired
    from octaves
    where has_gain
),

position_profile as (
    select
        units.problem,
        units.model_id,
        if(sides.is_paired, units.pair, units.condition) as condition,
        cast(if(sides.octave = 5, 0, 2 ** (sides.octave - 1)) as bigint) as position_from,
        cast(2 ** sides.octave as bigint) as position_to,
        cast(sum(sides.tokens) as bigint) as tokens,
        count(distinct units.doc_id) as documents,
        sum(sides.nll_sum) / sum(sides.tokens) as nll,
        sum(sides.short_nll_sum) / sum(sides.tokens) as short_nll,
        (sum(sides.short_nll_sum) - sum(sides.nll_sum)) / sum(sides.tokens) as gain,
        sum(sides.entropy_sum) / sum(sides.tokens) as entropy,
        sum(sides.top_1) / sum(sides.tokens) as accuracy
    from sides
    inner join units using (unit_id)
    group by all
)

select * from position_profile
