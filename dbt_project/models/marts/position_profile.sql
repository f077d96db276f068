{% if var('shards', none) -%}
select * from read_parquet('{{ var('shards') }}/*/position_profile.parquet')
{%- else -%}
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
        greatest(cast(floor(log2(greatest(position, 1))) as integer) + 1, 5) as octave,
        count(*) filter (where is_first_pair) as tokens,
        sum(nll) filter (where is_first_pair) as nll_sum,
        sum(cast(entropy as double)) filter (where is_first_pair) as entropy_sum,
        count_if(rank = 1) filter (where is_first_pair) as top_1,
        count(gain) as paired_tokens,
        sum(nll) filter (where gain is not null) as paired_nll_sum,
        sum(short_nll) filter (where gain is not null) as short_nll_sum,
        sum(cast(entropy as double)) filter (where gain is not null) as paired_entropy_sum,
        count_if(rank = 1) filter (where gain is not null) as paired_top_1
    from tokens
    group by unit_id, octave
),

in_full_context as (
    select
        units.problem,
        units.model_id,
        units.condition,
        units.doc_id,
        octaves.octave,
        octaves.tokens,
        octaves.nll_sum,
        cast(null as double) as short_nll_sum,
        octaves.entropy_sum,
        octaves.top_1
    from octaves
    inner join units using (unit_id)
    where octaves.tokens > 0
),

against_short_context as (
    select
        units.problem,
        units.model_id,
        units.pair as condition,
        units.doc_id,
        octaves.octave,
        octaves.paired_tokens as tokens,
        octaves.paired_nll_sum as nll_sum,
        octaves.short_nll_sum,
        octaves.paired_entropy_sum as entropy_sum,
        octaves.paired_top_1 as top_1
    from octaves
    inner join units using (unit_id)
    where octaves.paired_tokens > 0
),

contexts as (
    select * from in_full_context
    union all
    select * from against_short_context
),

position_profile as (
    select
        problem,
        model_id,
        condition,
        cast(if(octave = 5, 0, 2 ** (octave - 1)) as bigint) as position_from,
        cast(2 ** octave as bigint) as position_to,
        cast(sum(tokens) as bigint) as tokens,
        count(distinct doc_id) as documents,
        cast(sum(nll_sum) / sum(tokens) as double) as nll,
        cast(sum(short_nll_sum) / sum(tokens) as double) as short_nll,
        cast((sum(short_nll_sum) - sum(nll_sum)) / sum(tokens) as double) as gain,
        cast(sum(entropy_sum) / sum(tokens) as double) as entropy,
        cast(sum(top_1) / sum(tokens) as double) as accuracy
    from contexts
    group by problem, model_id, condition, octave
)

select * from position_profile
{%- endif %}
