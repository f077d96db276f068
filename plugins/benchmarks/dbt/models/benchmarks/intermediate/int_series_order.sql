-- Whether early scores rise monotonically: E2LM's signal quality.

with series as (
    select * from {{ ref('int_whole_series') }}
),

early as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        early_checkpoint,
        oriented,
        count(*) over (partition by problem, model_id, benchmark, metric) as n,
        -- equal scores: the earlier checkpoint gets the lower rank
        row_number() over (
            partition by problem, model_id, benchmark, metric
            order by oriented, early_checkpoint
        ) - 1 as ordinal_rank,
        row_number() over (
            partition by problem, model_id, benchmark, metric
            order by oriented asc, early_checkpoint desc
        ) - 1 as reversed_rank
    from series
    where early_checkpoint is not null
),

monotonicity as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        any_value(n) as n,
        min(oriented) = max(oriented) as is_constant,
        sum((early_checkpoint - ordinal_rank) ** 2) as squares,
        -- of all orders of equal scores the one above gives the highest monotonicity, and the
        -- opposite one the lowest: they are sorted alike, and against each other
        sum((early_checkpoint - reversed_rank) ** 2) as reversed_squares
    from early
    group by problem, model_id, benchmark, metric
),

lags as (
    select
        later.problem,
        later.model_id,
        later.benchmark,
        later.metric,
        later.early_checkpoint - sooner.early_checkpoint as lag_length,
        min(later.oriented) = max(later.oriented)
        or min(sooner.oriented) = max(sooner.oriented) as is_constant,
        corr(later.oriented, sooner.oriented) as correlation
    from early as later
    inner join early as sooner
        on later.problem = sooner.problem
        and later.model_id = sooner.model_id
        and later.benchmark = sooner.benchmark
        and later.metric = sooner.metric
        and later.early_checkpoint > sooner.early_checkpoint
        and later.early_checkpoint - sooner.early_checkpoint <= floor(later.n / 4) - 1
    group by all
),

autocorrelation as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        bool_or(is_constant) as is_constant,
        avg(abs(correlation)) as autocorrelation
    from lags
    group by problem, model_id, benchmark, metric
),

every_series as (
    select distinct
        problem,
        model_id,
        benchmark,
        metric
    from series
),

judged as (
    select
        every_series.*,
        coalesce(monotonicity.n, 0) as checkpoints,
        monotonicity.squares,
        monotonicity.reversed_squares,
        autocorrelation.autocorrelation,
        case
            when coalesce(monotonicity.n, 0) < 8 then 'few_early_checkpoints'
            when monotonicity.is_constant then 'constant_scores'
        end as order_reason,
        case when autocorrelation.is_constant then 'constant_lags' end as lag_reason
    from every_series
    left join monotonicity using (problem, model_id, benchmark, metric)
    left join autocorrelation using (problem, model_id, benchmark, metric)
),

measured as (
    select
        problem,
        model_id,
        benchmark,
        metric,
        checkpoints,
        case
            when order_reason is null
                then greatest(0, 1 - 6 * squares / (checkpoints * (checkpoints ** 2 - 1)))
        end as monotonicity,
        case
            when order_reason is null
                then greatest(
                        0, 1 - 6 * reversed_squares / (checkpoints * (checkpoints ** 2 - 1))
                    )
        end as monotonicity_low,
        case
            when order_reason is null and lag_reason is null then autocorrelation
        end as autocorrelation,
        order_reason,
        coalesce(order_reason, lag_reason) as lag_reason
    from judged
)

select
    problem,
    model_id,
    benchmark,
    metric,
    checkpoints,
    cast(monotonicity as double) as monotonicity,
    cast(monotonicity_low as double) as monotonicity_low,
    cast(autocorrelation as double) as autocorrelation,
    cast((monotonicity + autocorrelation) / 2 as double) as sq,
    cast((monotonicity_low + autocorrelation) / 2 as double) as sq_low,
    order_reason,
    lag_reason
from measured
