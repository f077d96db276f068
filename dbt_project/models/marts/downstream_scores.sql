with downstream as (
    select * from {{ source('extract', 'downstream') }}
),

asked as (
    select * from {{ source('extract', 'recall_items') }}
),

items as (
    select
        downstream.*,
        avg(downstream.score) over task as task_score,
        count(*) over task as task_items,
        bool_and(coalesce(asked.counts, true)) over task as counts
    from downstream
    left join asked using (problem, model_id, task, item)
    window task as (partition by downstream.problem, downstream.model_id, downstream.task)
),

-- Items of one cluster share a context: in a standard error they count as one.
clusters as (
    select
        problem,
        model_id,
        task,
        task_score,
        task_items,
        counts,
        cluster,
        sum(score - task_score) as residual
    from items
    group by all
),

tasks as (
    select
        problem,
        model_id,
        task,
        task_score as score,
        case
            when count(*) > 1
                then sqrt(sum(residual ** 2) * count(*) / (count(*) - 1)) / task_items
        end as stderr,
        task_items as items,
        counts
    from clusters
    group by problem, model_id, task, task_score, task_items, counts
),

contexts as (
    select
        problem,
        model_id,
        cluster,
        sum(residual / task_items) as residual
    from clusters
    where counts
    group by problem, model_id, cluster
),

context_sums as (
    select
        problem,
        model_id,
        count(*) as contexts,
        sum(residual ** 2) as residual_squares
    from contexts
    group by problem, model_id
),

overall as (
    select
        tasks.problem,
        tasks.model_id,
        'overall' as task,
        avg(tasks.score) as score,
        case
            when count(tasks.stderr) = count(*)
                then sqrt(
                        any_value(context_sums.residual_squares * context_sums.contexts)
                        / (any_value(context_sums.contexts) - 1)
                    ) / count(*)
        end as stderr,
        sum(tasks.items) as items
    from tasks
    inner join context_sums using (problem, model_id)
    where tasks.counts
    group by tasks.problem, tasks.model_id
),

downstream_scores as (
    select * exclude (counts) from tasks
    union all by name
    select * from overall
)

select
    problem,
    model_id,
    task,
    cast(score as double) as score,
    cast(stderr as double) as stderr,
    cast(items as bigint) as items
from downstream_scores
