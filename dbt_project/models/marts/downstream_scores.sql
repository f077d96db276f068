with downstream as (
    select * from {{ source('extract', 'downstream') }}
),

asked as (
    select * from {{ source('extract', 'recall_items') }}
),

items as (
    select
        downstream.*,
        coalesce(asked.counts, true) as counts
    from downstream
    left join asked
        on downstream.problem = asked.problem
        and downstream.model_id = asked.model_id
        and downstream.task = asked.task
        and downstream.item = asked.item
),

task_means as (
    select
        problem,
        model_id,
        task,
        avg(score) as score,
        count(*) as items,
        count(distinct cluster) as clusters,
        bool_and(counts) as counts
    from items
    group by problem, model_id, task
),

cluster_residuals as (
    select
        items.problem,
        items.model_id,
        items.task,
        items.cluster,
        sum(items.score - task_means.score) as residual
    from items
    inner join task_means
        on items.problem = task_means.problem
        and items.model_id = task_means.model_id
        and items.task = task_means.task
    group by items.problem, items.model_id, items.task, items.cluster
),

residual_sums as (
    select
        problem,
        model_id,
        task,
        sum(residual ** 2) as residual_squares
    from cluster_residuals
    group by problem, model_id, task
),

tasks as (
    select
        task_means.problem,
        task_means.model_id,
        task_means.task,
        task_means.score,
        case
            when task_means.clusters > 1
                then sqrt(
                        residual_sums.residual_squares
                        * task_means.clusters / (task_means.clusters - 1)
                    ) / task_means.items
        end as stderr,
        task_means.items,
        task_means.counts
    from task_means
    inner join residual_sums
        on task_means.problem = residual_sums.problem
        and task_means.model_id = residual_sums.model_id
        and task_means.task = residual_sums.task
),

context_residuals as (
    select
        cluster_residuals.problem,
        cluster_residuals.model_id,
        cluster_residuals.cluster,
        sum(cluster_residuals.residual / task_means.items) as residual
    from cluster_residuals
    inner join task_means
        on cluster_residuals.problem = task_means.problem
        and cluster_residuals.model_id = task_means.model_id
        and cluster_residuals.task = task_means.task
    where task_means.counts
    group by cluster_residuals.problem, cluster_residuals.model_id, cluster_residuals.cluster
),

context_sums as (
    select
        problem,
        model_id,
        count(*) as clusters,
        sum(residual ** 2) as residual_squares
    from context_residuals
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
                        any_value(context_sums.residual_squares * context_sums.clusters)
                        / (any_value(context_sums.clusters) - 1)
                    ) / count(*)
        end as stderr,
        sum(tasks.items) as items
    from tasks
    inner join context_sums
        on tasks.problem = context_sums.problem
        and tasks.model_id = context_sums.model_id
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
