with position_sums as (
    select * from {{ ref('int_position_sums') }}
),

pair_sums as (
    select * from {{ ref('int_pair_sums') }}
),

full_context as (
    select
        problem,
        model_id,
        condition,
        position_floor,
        doc_id,
        tokens,
        nll_sum,
        null as short_nll_sum,
        entropy_sum,
        top_1
    from position_sums
),

beside_short_context as (
    select
        problem,
        model_id,
        condition,
        position_floor,
        doc_id,
        tokens,
        nll_sum,
        short_nll_sum,
        entropy_sum,
        top_1
    from pair_sums
),

sums as (
    select * from full_context
    union all by name
    select * from beside_short_context
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
