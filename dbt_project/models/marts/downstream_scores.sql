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
        sqrt(sum(residual ** 2) * count(*) / nullif(count(*) - 1, 0)) / task_items as stderr,
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

context_errors as (
    select
        problem,
        model_id,
        sqrt(sum(residual ** 2) * count(*) / nullif(count(*) - 1, 0)) as stderr
    from contexts
    group by problem, model_id
),

overall as (
    select
        tasks.problem,
        tasks.model_id,
        'overall' as task,
        avg(tasks.score) as score,
        if(count(tasks.stderr) = count(*), any_value(context_errors.stderr) / count(*), null)
            as stderr,
        cast(sum(tasks.items) as bigint) as items
    from tasks
    inner join context_errors using (problem, model_id)
    where tasks.counts
    group by tasks.problem, tasks.model_id
),

downstream_scores as (
    select * exclude (counts) from tasks
    union all by name
    select * from overall
)

select * from downstream_scores
