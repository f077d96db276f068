-- A run's scores on one benchmark, read in one way, in the order of training.

with scores as (
    select * from {{ ref('stg_benchmark_scores') }}
),

tables as (
    select * from {{ ref('stg_benchmark_tables') }}
),

placed as (
    select
        problem,
        model_id,
        full_id,
        size,
        architecture,
        recipe,
        parameters,
        benchmark,
        metric,
        direction,
        step,
        tokens,
        coalesce(tokens, step, 0) as progress,
        score,
        stderr,
        case direction when 'lower' then -score else score end as oriented
    from scores
),

ordered as (
    select
        *,
        row_number() over (
            partition by problem, model_id, benchmark, metric
            order by progress
        ) - 1 as checkpoint,
        count(*) over (partition by problem, model_id, benchmark, metric) as checkpoints,
        progress / nullif(max(progress) over (partition by problem, model_id), 0) as share
    from placed
),

windowed as (
    select
        ordered.*,
        coalesce(ordered.progress <= tables.early_until_tokens, true)
        and coalesce(ordered.share <= tables.early_until_share, true)
        -- a table without steps keeps all its checkpoints
        and coalesce(ordered.step % tables.early_every_steps = 0, true) as in_window,
        coalesce(tables.early_checkpoints, ordered.checkpoints) as early_checkpoints
    from ordered
    inner join tables
        on ordered.problem = tables.problem
),

numbered as (
    select
        *,
        case
            when in_window
                then row_number() over (
                        partition by problem, model_id, benchmark, metric, in_window
                        order by checkpoint
                    ) - 1
        end as early_checkpoint
    from windowed
)

select
    * exclude (in_window, early_checkpoints, early_checkpoint),
    case
        when early_checkpoint < early_checkpoints then early_checkpoint
    end as early_checkpoint
from numbered
