-- A run's scores on one benchmark, read in one way, in the order of training.

with scores as (
    select * from {{ source('benchmarks', 'benchmark_scores') }}
),

tables as (
    select * from {{ source('benchmarks', 'benchmark_tables') }}
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
        max(progress) over (partition by problem, model_id) as run_end,
        progress / nullif(max(progress) over (partition by problem, model_id), 0) as share
    from placed
),

followed as (
    select
        *,
        lead(share) over (
            partition by problem, model_id, benchmark, metric
            order by checkpoint
        ) as next_share
    from ordered
),

windowed as (
    select
        followed.*,
        least(
            tables.early_until_tokens, tables.early_until_share * followed.run_end
        ) as window_end,
        coalesce(followed.progress <= tables.early_until_tokens, true)
        and coalesce(followed.share <= tables.early_until_share, true)
        -- a table without steps keeps all its checkpoints
        and coalesce(followed.step % tables.early_every_steps = 0, true)
        -- a given number, evenly spaced: the last one up to each of as many parts of the window
        and coalesce(
            greatest(
                1, ceil(followed.share * tables.early_checkpoints / tables.early_until_share - 1e-9)
            )
            < ceil(
                least(followed.next_share, tables.early_until_share + 1e-6)
                * tables.early_checkpoints / tables.early_until_share - 1e-9
            ),
            true
        ) as is_early
    from followed
    inner join tables using (problem)
),

numbered as (
    select
        *,
        case
            when is_early
                then row_number() over (
                        partition by problem, model_id, benchmark, metric, is_early
                        order by checkpoint
                    ) - 1
        end as early_checkpoint
    from windowed
)

select * exclude (run_end, next_share, is_early)
from numbered
