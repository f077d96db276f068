with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

pair_sums as (
    select * from {{ ref('int_pair_sums') }}
),

sums as (
    select * from position_sums
    union all by name
    select * from pair_sums
),

banded as (
    select
        *,
        cast(
            case
                when position_floor < 32 then 0
                else 2 ** floor(log2(position_floor))
            end as bigint
        ) as position_from
    from sums
),

position_profile as (
    select
        problem,
        model_id,
        condition,
        position_from,
        greatest(2 * position_from, 32) as position_to,
        cast(sum(tokens) as bigint) as tokens,
        count(distinct doc_id) as documents,
        cast(sum(nll_sum) / sum(tokens) as double) as nll,
        cast(sum(short_nll_sum) / sum(tokens) as double) as short_nll,
        cast((sum(short_nll_sum) - sum(nll_sum)) / sum(tokens) as double) as gain,
        cast(sum(entropy_sum) / sum(tokens) as double) as entropy,
        cast(sum(top_1) / sum(tokens) as double) as accuracy
    from banded
    group by problem, model_id, condition, position_from
)

select * from position_profile
