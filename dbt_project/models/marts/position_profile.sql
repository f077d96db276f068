with region_sums as (
    select * from {{ ref('int_region_sums') }}
),

region_pair_sums as (
    select * from {{ ref('int_region_pair_sums') }}
),

sums as (
    select * from region_sums
    union all by name
    select * from region_pair_sums
),

octaves as (
    select
        *,
        cast(split_part(region, ' ', 2) as integer) as octave
    from sums
    where starts_with(region, 'octave ')
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
    from octaves
    group by problem, model_id, condition, octave
)

select * from position_profile
