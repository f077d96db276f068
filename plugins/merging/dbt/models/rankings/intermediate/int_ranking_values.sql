with ranking_columns as (
    select * from {{ source('rankings', 'ranking_columns') }}
),

results as (
    select * from {{ source('rankings', 'ranking_results') }}
),

item_metrics as (
    {% for name in context.keys() | sort if name.startswith('adds_item_scores__') %}
    select * from {{ context[name]() }}
    {{ 'union all by name' if not loop.last }}
    {% else %}
    select
        cast(null as varchar) as problem,
        cast(null as varchar) as model_id,
        cast(null as varchar) as condition,
        cast(null as integer) as item,
        cast(null as varchar) as cluster,
        cast(null as varchar) as filter,
        cast(null as varchar) as metric,
        cast(null as double) as value,
        cast(null as double) as weight
    where false
    {% endfor %}
),

brought as (
    select
        ranking_columns.*,
        results.entry,
        results.item,
        coalesce(results.cluster, cast(results.item as varchar)) as cluster,
        results.value,
        cast(1 as double) as weight
    from ranking_columns
    inner join results using (problem, round, task, metric)
    where ranking_columns.condition is null
),

run_here as (
    select
        ranking_columns.*,
        item_metrics.model_id as entry,
        item_metrics.item,
        item_metrics.cluster,
        item_metrics.value,
        item_metrics.weight
    from ranking_columns
    inner join item_metrics
        on ranking_columns.problem = item_metrics.problem
        and ranking_columns.condition = item_metrics.condition
        and ranking_columns.metric = item_metrics.metric
        and item_metrics.filter = 'none'
),

together as (
    select * from brought
    union all by name
    select * from run_here
)

select
    problem,
    round,
    round_weight,
    task_group,
    task,
    metric,
    direction,
    given,
    entry,
    item,
    cluster,
    value,
    weight
from together
