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

most_early as (
    select
        problem,
        max(checkpoints) as checkpoints
    from series_order
    group by problem
),

remedied as (
    select
        series_order.*,
        case
            when series_order.checkpoints >= 8 then ''
            when most_early.checkpoints >= 8 and windows.checkpoints >= 8
                then concat(
                        '; add missing checkpoints (other scores of the table have ',
                        most_early.checkpoints,
                        '), or widen the early window (`early` in a problem file of kind table)'
                    )
            when windows.checkpoints >= 8
                then '; widen the early window (`early` in a problem file of kind table)'
            else concat('; add checkpoints: the run has ', windows.checkpoints, ' in all')
        end as remedy
    from series_order
    inner join windows
        on series_order.problem = windows.problem
        and series_order.model_id = windows.model_id
        and series_order.benchmark = windows.benchmark
        and series_order.metric = windows.metric
    inner join most_early
        on series_order.problem = most_early.problem
),

order_reasons as (
    select
        * exclude (order_reason, lag_reason),
        concat(order_reason, remedy) as order_reason,
        concat(lag_reason, remedy) as lag_reason
    from remedied
),

run_noise as (
    select
        * exclude (noise_sd, sampling_error),
        case when checkpoints >= wanted_checkpoints then noise_sd end as noise_sd,
        case when checkpoints >= wanted_checkpoints then sampling_error end as sampling_error,
        case
            when checkpoints >= wanted_checkpoints then noise_sd / nullif(abs(last_mean), 0)
        end as noise_relative,
        case
            when checkpoints < wanted_checkpoints
                then concat(
                        checkpoints,
                        ' of at least ',
                        wanted_checkpoints,
                        ' checkpoints',
                        case
                            when checkpoints > 1
                                then concat(
                                        '; fewer are used with `tokenmart e2lm score '
                                        '--last-checkpoints ',
                                        checkpoints,
                                        '`, or `tokenmart dbt run --vars ''{last_checkpoints: ',
                                        checkpoints,
                                        '}''`'
                                    )
                        end
                    )
        end as noise_reason,
        case when checkpoints < 2 then 'only one checkpoint' end as step_reason
    from noise
),

of_order as (
    select
        one.problem,
        one.model_id,
        one.benchmark,
        one.metric,
        named.statistic,
        named.value,
        named.reason
    from order_reasons as one
    cross join lateral (
        values
        ('sq', one.sq, one.lag_reason),
        ('monotonicity', one.monotonicity, one.order_reason),
        ('autocorrelation', one.autocorrelation, one.lag_reason),
        ('sq_low', one.sq_low, one.lag_reason),
        ('sq_high', one.sq_high, one.lag_reason),
        ('sq_average_ranks', one.sq_average_ranks, one.lag_reason),
        ('monotonicity_average_ranks', one.monotonicity_average_ranks, one.order_reason),
        ('early_checkpoints', cast(one.checkpoints as double), null)
    ) as named (statistic, value, reason)
),

of_noise as (
    select
        one.problem,
        one.model_id,
        one.benchmark,
        one.metric,
        named.statistic,
        named.value,
        named.reason
    from run_noise as one
    cross join lateral (
        values
        ('noise_sd', one.noise_sd, one.noise_reason),
        (
            'noise_relative',
            one.noise_relative,
            coalesce(one.noise_reason, 'the mean of the last checkpoints is 0')
        ),
        (
            'sampling_error',
            one.sampling_error,
            coalesce(one.noise_reason, 'the table gives no standard error')
        ),
        ('total_variation', one.total_variation, one.step_reason),
        ('rise_balance', one.rise_balance, one.step_reason)
    ) as named (statistic, value, reason)
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
        any_value(run_noise.wanted_checkpoints) as wanted_checkpoints,
        arg_max(run_noise.noise_reason, run_noise.checkpoints) as few_checkpoints,
        case
            when count(*) > 1
                then
                    (max(run_noise.final_score) - min(run_noise.final_score))
                    / nullif(abs(avg(run_noise.final_score)), 0)
        end as signal,
        avg(run_noise.noise_relative) as noise
    from run_noise
    inner join windows
        on run_noise.problem = windows.problem
        and run_noise.model_id = windows.model_id
        and run_noise.benchmark = windows.benchmark
        and run_noise.metric = windows.metric
    group by run_noise.problem, run_noise.benchmark, run_noise.metric
),

-- recipes that may be misspelt

near_recipes as (
    select distinct
        problem,
        recipe,
        case
            when recipe in ('science', 'web') then null
            when levenshtein(lower(recipe), 'science') <= 2 then 'science'
            when levenshtein(lower(recipe), 'web') <= 1 then 'web'
        end as near
    from series
),

misspelt as (
    select
        problem,
        string_agg(
            concat('; unknown recipe ', recipe, ': did you mean ', near, '?'), '' order by recipe
        ) as hint
    from near_recipes
    where near is not null
    group by problem
),

explained as (
    select
        *,
        case
            when most_checkpoints >= wanted_checkpoints then 'the mean of the last checkpoints is 0'
            else few_checkpoints
        end as noise_reason,
        case
            when runs_over_training < 2
                then
                    'fewer than two runs have several checkpoints, and no two recipes have runs of '
                    'two sizes'
            when runs_early < 2
                then
                    'fewer than two runs have a checkpoint in the early window; widen it (`early` '
                    'in a problem file of kind table)'
            when runs_both < 2
                then concat(
                        runs_early - runs_both,
                        ' of ',
                        runs_early,
                        ' runs have no checkpoint after the early window; end it earlier (`early` '
                        'in a problem file of kind table), or add later checkpoints'
                    )
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
    inner join tables
        on decisions.problem = tables.problem
    inner join spread
        on decisions.problem = spread.problem
        and decisions.benchmark = spread.benchmark
        and decisions.metric = spread.metric
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
        unnest(['rc', 'rc_last_early', 'rc_last']) as statistic,
        unnest([rc, rc_last_early, rc_last]) as value
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
    select * from final_ranking
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
            when named.of_several and explained.runs < 2 then 'only one run'
            when starts_with(named.statistic, 'earliest_share') and explained.runs_over_training < 2
                then 'no two runs have several checkpoints'
            else named.reason
        end as reason
    from explained
    left join misspelt
        on explained.problem = misspelt.problem
    cross join lateral (
        values
        ('signal', true, 'the mean of the final scores is 0'),
        ('noise', false, explained.noise_reason),
        (
            'snr',
            true,
            case
                when explained.noise = 0 then 'no noise: the last checkpoints are equal'
                when explained.noise is null then explained.noise_reason
                else 'the mean of the final scores is 0'
            end
        ),
        (
            'rc',
            false,
            coalesce(
                explained.window_reason,
                'no two runs share a checkpoint in the early window and one after it'
            )
        ),
        (
            'rc_last_early',
            false,
            coalesce(
                explained.window_reason,
                'no two runs share a checkpoint in the early window and one after it'
            )
        ),
        (
            'rc_last',
            false,
            coalesce(
                explained.window_reason,
                'no two runs share a checkpoint between the early window and the end'
            )
        ),
        (
            'cs',
            false,
            concat(
                'no early window shared by runs of the recipes science and web',
                misspelt.hint
            )
        ),
        ('earliest_tokens', true, 'the runs do not end at one checkpoint that they share'),
        ('earliest_share', false, 'the ranking still changes in the last part of training'),
        ('earliest_share_95', false, 'more than 5% of the pairs still change in the last part'),
        (
            'decision_accuracy',
            true,
            coalesce(
                explained.window_reason, 'no two of the runs have a score at both stages'
            )
        ),
        (
            'decision_pairs',
            true,
            coalesce(
                explained.window_reason, 'no two of the runs have a score at both stages'
            )
        )
    ) as named (statistic, of_several, reason)
),

of_benchmarks as (
    select
        expected.* exclude (reason),
        coalesce(measured.reason, expected.reason) as reason,
        measured.value
    from expected
    left join measured
        on expected.problem = measured.problem
        and expected.benchmark = measured.benchmark
        and expected.metric = measured.metric
        and expected.statistic = measured.statistic
),

staged_decisions as (
    select
        problem,
        benchmark,
        metric,
        concat(
            case when metric = later_metric then '' else 'target_' end,
            unnest(['decision_accuracy', 'decision_pairs']),
            case kind
                when 'share' then concat('@', stage)
                when 'size' then concat('@', stage, '>', later_stage)
            end
        ) as statistic,
        unnest([agreement, pairs]) as value
    from decisions
    where kind != 'early' or metric != later_metric
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
        'it takes 8 early checkpoints with unequal scores' as needs,
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
        case of_benchmarks.statistic
            when 'rc' then 'it takes two runs with checkpoints after the early window'
            else 'it takes runs with science and with web in the column recipe'
        end as needs,
        of_benchmarks.value
    from series_order
    inner join of_benchmarks
        on series_order.problem = of_benchmarks.problem
        and series_order.benchmark = of_benchmarks.benchmark
        and series_order.metric = of_benchmarks.metric
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
        concat(
            string_agg(concat(component, ' is undefined (', needs, ')'), ', ' order by place)
            filter (where weight != 0 and value is null),
            '; a weight of 0 leaves a part out, such as --weights 1,0,0'
        ) as reason
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
    union all by name
    select * from staged_decisions
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
