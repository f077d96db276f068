-- Target scores from the items of `downstream`, for the statistics (warehouse/sql/views.py).

-- One row per problem, model and task of the target, and one per problem and model with the task
-- `overall`: the unweighted mean of the tasks' scores, without those at the shortest length if the
-- problem file leaves it out. Standard errors are clustered by the context that items share; null
-- where there is only one context. All tasks of the recall target share contexts, so that of
-- `overall` is clustered by context over all tasks.
create or replace view main.downstream_scores as
with asked as (
    select * from main.recall_items
),
items as (
    select
        downstream.*,
        avg(downstream.score) over task as task_score,
        count(*) over task as task_items,
        bool_and(coalesce(asked.counts, true)) over task as counts
    from main.downstream
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

select * from downstream_scores;

-- Scores of a recall target by depth: one row per problem, model, task without its length, length in
-- tokens of context, and eighth of the context with the answer, 0 (start) to 7 (end); null if the
-- answer is not at one place.
create or replace view main.downstream_depths as
with asked as (
    select * from main.recall_items
),
items as (
    select
        downstream.problem,
        downstream.model_id,
        asked.kind,
        asked.length,
        case when asked.depth is not null then least(floor(asked.depth * 8), 7) end as eighth,
        downstream.cluster,
        downstream.score,
        avg(downstream.score) over (
            partition by downstream.problem, downstream.model_id, asked.kind, asked.length, eighth
        ) as mean
    from main.downstream
    inner join asked using (problem, model_id, task, item)
),

-- Items of one cluster share a context: in a standard error they count as one.
clusters as (
    select
        problem,
        model_id,
        kind,
        length,
        eighth,
        mean,
        cluster,
        count(*) as items,
        sum(score - mean) as residual
    from items
    group by all
)

select
    problem,
    model_id,
    kind,
    length,
    cast(eighth as integer) as eighth,
    mean as score,
    sqrt(sum(residual ** 2) * count(*) / nullif(count(*) - 1, 0)) / sum(items) as stderr,
    cast(sum(items) as bigint) as items,
    count(*) as contexts
from clusters
group by problem, model_id, kind, length, eighth, mean;
