-- `reason` is a code, in `reasons.py` in words; a value that is null has one.

with tables as (
    select * from {{ source('benchmarks', 'benchmark_tables') }}
),

series as (
    select * from {{ ref('int_whole_series') }}
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

models as (
    select distinct
        problem,
        model_id,
        full_id
    from series
),

-- one run at a time

windows as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        count(*) as checkpoints,
        count(early_checkpoint) > 0 as has_early,
        count(early_checkpoint) > 0
        and max(checkpoint) filter (where early_checkpoint is not null) < max(checkpoint)
            as has_both
    from series
    group by problem, model_id, benchmark, metric
),

run_noise as (
    select
        * exclude (noise_sd, sampling_error),
        if(checkpoints >= 10, noise_sd, null) as noise_sd,
        if(checkpoints >= 10, sampling_error, null) as sampling_error,
        if(checkpoints >= 10, noise_sd / nullif(abs(last_mean), 0), null) as noise_relative,
        if(checkpoints < 10, 'few_checkpoints', null) as noise_reason
    from noise
),

of_order as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        unnest(['sq', 'sq_low', 'monotonicity', 'autocorrelation', 'early_checkpoints'])
            as statistic,
        unnest([sq, sq_low, monotonicity, autocorrelation, checkpoints]) as value,
        unnest([lag_reason, lag_reason, order_reason, lag_reason, null]) as reason
    from series_order
),

of_noise as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        unnest(['noise_sd', 'noise_relative', 'sampling_error']) as statistic,
        unnest([noise_sd, noise_relative, sampling_error]) as value,
        unnest([
            noise_reason,
            coalesce(noise_reason, 'zero_mean'),
            coalesce(noise_reason, 'no_standard_error')
        ]) as reason
    from run_noise
),

-- all runs of a problem together

spread as (
    select
        run_noise.problem,
        run_noise.benchmark,
        run_noise.metric,
        count(*) as runs,
        count(*) filter (where run_noise.checkpoints > 1) as runs_over_training,
        count(*) filter (where windows.has_early) as runs_early,
        count(*) filter (where windows.has_both) as runs_both,
        max(run_noise.checkpoints) as most_checkpoints,
        case
            when count(*) > 1
                then
                    (max(run_noise.final_score) - min(run_noise.final_score))
                    / nullif(abs(avg(run_noise.final_score)), 0)
        end as signal,
        avg(run_noise.noise_relative) as noise
    from run_noise
    inner join windows using (problem, model_id, benchmark, metric)
    group by run_noise.problem, run_noise.benchmark, run_noise.metric
),

explained as (
    select
        *,
        if(most_checkpoints >= 10, 'zero_mean', 'few_checkpoints') as noise_reason,
        case
            when runs_over_training < 2 then 'few_runs_over_training'
            when runs_early < 2 then 'few_runs_early'
            when runs_both < 2 then 'no_later_checkpoints'
        end as window_reason
    from spread
),

-- the early window; if the target has a size, or no two runs are over training, otherwise the
-- smallest size against the target's, or the largest one
widest_decisions as (
    select
        decisions.*,
        row_number() over (
            partition by decisions.problem, decisions.benchmark, decisions.metric
            order by decisions.kind asc, decisions.position asc, decisions.later_position desc
        ) as place
    from decisions
    inner join tables using (problem)
    inner join spread using (problem, benchmark, metric)
    where
        decisions.metric = decisions.later_metric
        and (
            decisions.kind = 'early'
            or (
                decisions.kind = 'size'
                and decisions.later_stage = coalesce(tables.target_size, decisions.later_stage)
                and (tables.target_size is not null or spread.runs_over_training < 2)
            )
        )
),

measured as (
    select
        problem,
        benchmark,
        metric,
        unnest(['signal', 'noise', 'snr']) as statistic,
        unnest([signal, noise, signal / nullif(noise, 0)]) as value
    from spread
    union all by name
    select
        problem,
        benchmark,
        metric,
        'rc' as statistic,
        rc as value
    from consistency
    union all by name
    select
        problem,
        benchmark,
        metric,
        'cs' as statistic,
        cs as value
    from recipe_gap
    union all by name
    select
        problem,
        benchmark,
        metric,
        unnest(['decision_accuracy', 'decision_pairs']) as statistic,
        unnest([agreement, pairs]) as value
    from widest_decisions
    where place = 1
),

expected as (
    select
        explained.problem,
        explained.benchmark,
        explained.metric,
        named.statistic,
        case
            when named.of_several and explained.runs < 2 then 'one_run'
            else named.reason
        end as reason
    from explained
    cross join lateral (
        values
        ('signal', true, 'zero_mean'),
        ('noise', false, explained.noise_reason),
        (
            'snr',
            true,
            case
                when explained.noise = 0 then 'no_noise'
                when explained.noise is null then explained.noise_reason
                else 'zero_mean'
            end
        ),
        ('rc', false, coalesce(explained.window_reason, 'no_shared_checkpoints')),
        ('cs', false, 'no_pair_of_recipes'),
        ('decision_accuracy', true, coalesce(explained.window_reason, 'no_pairs')),
        ('decision_pairs', true, coalesce(explained.window_reason, 'no_pairs'))
    ) as named (statistic, of_several, reason)
),

of_benchmarks as (
    select
        expected.*,
        measured.value
    from expected
    left join measured using (problem, benchmark, metric, statistic)
),

-- E2LM's score of a run on a benchmark; a component without weight may be undefined

components as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        'sq' as component,
        1 as place,
        {{ var('weight_sq', 0.5) }} as weight,
        sq as value
    from series_order
    union all by name
    select
        series_order.problem,
        series_order.model_id,
        series_order.benchmark,
        series_order.metric,
        of_benchmarks.statistic as component,
        case of_benchmarks.statistic when 'rc' then 2 else 3 end as place,
        case of_benchmarks.statistic
            when 'rc' then {{ var('weight_rc', 0.1) }} else {{ var('weight_cs', 0.4) }}
        end as weight,
        of_benchmarks.value
    from series_order
    inner join of_benchmarks using (problem, benchmark, metric)
    where of_benchmarks.statistic in ('rc', 'cs')
),

weighted as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        'weighted_score' as statistic,
        case
            when count(*) filter (where weight != 0 and value is null) = 0
                then coalesce(sum(weight * value) filter (where weight != 0), 0)
        end as value,
        'no_' || arg_min(component, place) filter (where weight != 0 and value is null) as reason
    from components
    group by problem, model_id, benchmark, metric
),

all_statistics as (
    select * from of_order
    union all by name
    select * from of_noise
    union all by name
    select * from weighted
    union all by name
    select * from of_benchmarks
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
left join models using (problem, model_id)
