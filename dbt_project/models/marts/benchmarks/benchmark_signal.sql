with tables as (
    select * from {{ ref('stg_benchmark_tables') }}
),

series as (
    select * from {{ ref('int_benchmark_series') }}
),

series_order as (
    select * from {{ ref('int_series_order') }}
),

noise as (
    select * from {{ ref('int_series_noise') }}
),

decisions as (
    select * from {{ ref('int_benchmark_decisions') }}
),

consistency as (
    select * from {{ ref('int_ranking_consistency') }}
),

recipe_gap as (
    select * from {{ ref('int_recipe_gap') }}
),

final_ranking as (
    select * from {{ ref('int_final_ranking') }}
),

models as (
    select distinct
        problem,
        model_id,
        full_id
    from series
),

benchmarks as (
    select
        problem,
        benchmark,
        metric,
        count(distinct model_id) as runs
    from series
    group by problem, benchmark, metric
),

-- one run at a time

run_noise as (
    select
        *,
        case
            when checkpoints < wanted_checkpoints
                then concat(checkpoints, ' of at least ', wanted_checkpoints, ' checkpoints')
        end as noise_reason,
        case when checkpoints < 2 then 'only one checkpoint' end as step_reason
    from noise
),

run_noise_measured as (
    select
        *,
        case when noise_reason is null then noise_sd end as last_sd,
        case
            when noise_reason is null then noise_sd / nullif(abs(last_mean), 0)
        end as last_relative,
        case when noise_reason is null then sampling_error end as last_sampling_error
    from run_noise
),

of_runs as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        unnest(
            [
                struct_pack(statistic := 'sq', value := sq, reason := lag_reason),
                struct_pack(
                    statistic := 'monotonicity', value := monotonicity, reason := order_reason
                ),
                struct_pack(
                    statistic := 'autocorrelation', value := autocorrelation, reason := lag_reason
                ),
                struct_pack(
                    statistic := 'sq_average_ranks', value := sq_average_ranks, reason := lag_reason
                ),
                struct_pack(
                    statistic := 'monotonicity_average_ranks',
                    value := monotonicity_average_ranks,
                    reason := order_reason
                ),
                struct_pack(
                    statistic := 'early_checkpoints',
                    value := cast(checkpoints as double),
                    reason := cast(null as varchar)
                )
            ]
        ) as measured
    from series_order
    union all by name
    select
        problem,
        model_id,
        benchmark,
        metric,
        unnest(
            [
                struct_pack(statistic := 'noise_sd', value := last_sd, reason := noise_reason),
                struct_pack(
                    statistic := 'noise_relative',
                    value := last_relative,
                    reason := coalesce(noise_reason, 'the mean of the last checkpoints is 0')
                ),
                struct_pack(
                    statistic := 'sampling_error',
                    value := last_sampling_error,
                    reason := coalesce(noise_reason, 'the table gives no standard error')
                ),
                struct_pack(
                    statistic := 'total_variation', value := total_variation, reason := step_reason
                ),
                struct_pack(
                    statistic := 'rise_balance', value := rise_balance, reason := step_reason
                )
            ]
        ) as measured
    from run_noise_measured
),

-- all runs of a problem together

spread as (
    select
        problem,
        benchmark,
        metric,
        (max(final_score) - min(final_score)) / nullif(abs(avg(final_score)), 0) as signal,
        avg(last_relative) as noise
    from run_noise_measured
    group by problem, benchmark, metric
),

of_benchmarks as (
    select
        benchmarks.problem,
        benchmarks.benchmark,
        benchmarks.metric,
        unnest(
            [
                struct_pack(
                    statistic := 'signal',
                    value := case when benchmarks.runs > 1 then spread.signal end,
                    reason := case
                        when benchmarks.runs < 2 then 'only one run'
                        else 'the mean of the final scores is 0'
                    end
                ),
                struct_pack(
                    statistic := 'noise',
                    value := spread.noise,
                    reason := 'no run has enough checkpoints'
                ),
                struct_pack(
                    statistic := 'snr',
                    value := case
                        when benchmarks.runs > 1 then spread.signal / nullif(spread.noise, 0)
                    end,
                    reason := case
                        when benchmarks.runs < 2 then 'only one run'
                        when spread.noise = 0 then 'no noise: the last checkpoints are equal'
                        else 'signal or noise is undefined'
                    end
                ),
                struct_pack(
                    statistic := 'rc',
                    value := consistency.rc,
                    reason := 'no two runs share a checkpoint after the early window'
                ),
                struct_pack(
                    statistic := 'rc_last_early',
                    value := consistency.rc_last_early,
                    reason := 'no two runs share a checkpoint after the early window'
                ),
                struct_pack(
                    statistic := 'rc_last',
                    value := consistency.rc_last,
                    reason := 'no two runs share a checkpoint between the early window and the end'
                ),
                struct_pack(
                    statistic := 'cs',
                    value := recipe_gap.cs,
                    reason := 'no early window shared by runs of the recipes science and web'
                ),
                struct_pack(
                    statistic := 'earliest_tokens',
                    value := by_tokens.value,
                    reason := 'the runs do not end at one checkpoint that they share'
                ),
                struct_pack(
                    statistic := 'earliest_share',
                    value := by_share.value,
                    reason := case
                        when by_share.problem is null then 'no two runs have several checkpoints'
                        else 'the ranking still changes in the last part of training'
                    end
                )
            ]
        ) as measured
    from benchmarks
    left join spread
        on benchmarks.problem = spread.problem
        and benchmarks.benchmark = spread.benchmark
        and benchmarks.metric = spread.metric
    left join consistency
        on benchmarks.problem = consistency.problem
        and benchmarks.benchmark = consistency.benchmark
        and benchmarks.metric = consistency.metric
    left join recipe_gap
        on benchmarks.problem = recipe_gap.problem
        and benchmarks.benchmark = recipe_gap.benchmark
        and benchmarks.metric = recipe_gap.metric
    left join final_ranking as by_tokens
        on benchmarks.problem = by_tokens.problem
        and benchmarks.benchmark = by_tokens.benchmark
        and benchmarks.metric = by_tokens.metric
        and by_tokens.statistic = 'earliest_tokens'
    left join final_ranking as by_share
        on benchmarks.problem = by_share.problem
        and benchmarks.benchmark = by_share.benchmark
        and benchmarks.metric = by_share.metric
        and by_share.statistic = 'earliest_share'
),

staged_decisions as (
    select
        problem,
        benchmark,
        metric,
        concat(
            case when metric = later_metric then '' else 'target_' end,
            'decision_accuracy',
            case kind
                when 'share' then concat('@', stage)
                when 'size' then concat('@', stage, '>', later_stage)
                else ''
            end
        ) as statistic,
        agreement as value
    from decisions
),

-- where no early window decides: the smallest size against the target's, or the largest one
widest_decisions as (
    select
        decisions.problem,
        decisions.benchmark,
        decisions.metric,
        'decision_accuracy' as statistic,
        decisions.agreement as value
    from decisions
    inner join tables
        on decisions.problem = tables.problem
    where
        decisions.kind = 'size'
        and decisions.metric = decisions.later_metric
        and decisions.later_stage = coalesce(tables.target_size, decisions.later_stage)
    qualify row_number() over (
            partition by decisions.problem, decisions.benchmark, decisions.metric
            order by decisions.position asc, decisions.later_position desc
        ) = 1
),

decision_rows as (
    select * from staged_decisions
    union all by name
    select widest_decisions.*
    from widest_decisions
    anti join staged_decisions
        on widest_decisions.problem = staged_decisions.problem
        and widest_decisions.benchmark = staged_decisions.benchmark
        and widest_decisions.metric = staged_decisions.metric
        and widest_decisions.statistic = staged_decisions.statistic
),

undecided as (
    select
        benchmarks.problem,
        benchmarks.benchmark,
        benchmarks.metric,
        'decision_accuracy' as statistic,
        cast(null as double) as value,
        case
            when benchmarks.runs < 2 then 'only one run'
            else 'no checkpoint after the early window, and no recipe at two sizes'
        end as reason
    from benchmarks
    anti join decision_rows
        on benchmarks.problem = decision_rows.problem
        and benchmarks.benchmark = decision_rows.benchmark
        and benchmarks.metric = decision_rows.metric
        and decision_rows.statistic = 'decision_accuracy'
),

-- E2LM's score of a run on a benchmark; a component without weight may be undefined

weights as (
    select
        {{ var('weight_sq', 0.5) }} as weight_sq,
        {{ var('weight_rc', 0.1) }} as weight_rc,
        {{ var('weight_cs', 0.4) }} as weight_cs
),

weighted as (
    select
        series_order.problem,
        series_order.model_id,
        series_order.benchmark,
        series_order.metric,
        'weighted_score' as statistic,
        case when weights.weight_sq = 0 then 0 else weights.weight_sq * series_order.sq end
        + case when weights.weight_rc = 0 then 0 else weights.weight_rc * consistency.rc end
        + case when weights.weight_cs = 0 then 0 else weights.weight_cs * recipe_gap.cs end
            as value,
        concat_ws(
            ', ',
            case when weights.weight_sq != 0 and series_order.sq is null then 'sq is undefined' end,
            case when weights.weight_rc != 0 and consistency.rc is null then 'rc is undefined' end,
            case when weights.weight_cs != 0 and recipe_gap.cs is null then 'cs is undefined' end
        ) as reason
    from series_order
    cross join weights
    left join consistency
        on series_order.problem = consistency.problem
        and series_order.benchmark = consistency.benchmark
        and series_order.metric = consistency.metric
    left join recipe_gap
        on series_order.problem = recipe_gap.problem
        and series_order.benchmark = recipe_gap.benchmark
        and series_order.metric = recipe_gap.metric
),

unpacked as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        measured['statistic'] as statistic,
        measured['value'] as value,
        measured['reason'] as reason
    from of_runs
    union all by name
    select
        problem,
        benchmark,
        metric,
        measured['statistic'] as statistic,
        measured['value'] as value,
        measured['reason'] as reason
    from of_benchmarks
),

all_statistics as (
    select * from unpacked
    union all by name
    select * from weighted
    union all by name
    select * from decision_rows
    union all by name
    select * from undecided
)

select
    all_statistics.problem,
    models.full_id as model,
    all_statistics.benchmark,
    all_statistics.metric,
    all_statistics.statistic,
    cast(all_statistics.value as double) as value,
    case when all_statistics.value is null then all_statistics.reason end as reason
from all_statistics
left join models
    on all_statistics.problem = models.problem
    and all_statistics.model_id = models.model_id
