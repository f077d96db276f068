with tokens as (
    select * from {{ ref('fct_tokens') }}
),

units as (
    select * from {{ ref('token_units') }}
),

-- A token counts once in its full context, and in each pair that scored it in both contexts.
sides as (
    select
        *,
        unnest([true, false]) as is_paired
    from tokens
),

-- Positions 0 to 31, then 32 to 63, 64 to 127, …
octaves as (
    select
        unit_id,
        is_paired,
        greatest(cast(floor(log2(greatest(position, 1))) as integer) + 1, 5) as octave,
        count(*) as tokens,
        sum(nll) as nll_sum,
        sum(short_nll) filter (where is_paired) as short_nll_sum,
        sum(cast(entropy as double)) as entropy_sum,
        count_if(rank = 1) as top_1
    from sides
    where if(is_paired, gain is not null, is_first_pair)
    group by unit_id, is_paired, octave
),

position_profile as (
    select
        units.problem,
        units.model_id,
        if(octaves.is_paired, units.pair, units.condition) as condition,
        cast(if(octaves.octave = 5, 0, 2 ** (octaves.octave - 1)) as bigint) as position_from,
        cast(2 ** octaves.octave as bigint) as position_to,
        cast(sum(octaves.tokens) as bigint) as tokens,
        count(distinct units.doc_id) as documents,
        sum(octaves.nll_sum) / sum(octaves.tokens) as nll,
        sum(octaves.short_nll_sum) / sum(octaves.tokens) as short_nll,
        (sum(octaves.short_nll_sum) - sum(octaves.nll_sum)) / sum(octaves.tokens) as gain,
        sum(octaves.entropy_sum) / sum(octaves.tokens) as entropy,
        sum(octaves.top_1) / sum(octaves.tokens) as accuracy
    from octaves
    inner join units using (unit_id)
    group by all
)

select * from position_profile
