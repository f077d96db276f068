with results as (
    select * from {{ ref('stg_ranking_results') }}
),

columns_of_rankings as (
    select
        *,
        coalesce(eval_problem, problem) as scored_problem
    from {{ ref('stg_ranking_columns') }}
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
        columns_of_rankings.problem,
        columns_of_rankings.round,
        columns_of_rankings.task_group,
        columns_of_rankings.task,
        columns_of_rankings.metric,
        columns_of_rankings.direction,
        columns_of_rankings.given,
        results.entry,
        results.item,
        coalesce(results.cluster, cast(results.item as varchar)) as cluster,
        results.value,
        cast(1 as double) as weight
    from results
    inner join columns_of_rankings
        on results.problem = columns_of_rankings.problem
        and results.round = columns_of_rankings.round
        and results.task = columns_of_rankings.task
        and results.metric = columns_of_rankings.metric
    where columns_of_rankings.condition is null
),

run_here as (
    select
        columns_of_rankings.problem,
        columns_of_rankings.round,
        columns_of_rankings.task_group,
        columns_of_rankings.task,
        columns_of_rankings.metric,
        columns_of_rankings.direction,
        columns_of_rankings.given,
        item_metrics.model_id as entry,
        item_metrics.item,
        item_metrics.cluster,
        item_metrics.value,
        item_metrics.weight
    from item_metrics
    inner join columns_of_rankings
        on item_metrics.problem = columns_of_rankings.scored_problem
        and item_metrics.condition = columns_of_rankings.condition
        and item_metrics.metric = columns_of_rankings.metric
        and item_metrics.filter = columns_of_rankings.filter
),

together as (
    select * from brought
    union all by name
    select * from run_here
)

select * from together
