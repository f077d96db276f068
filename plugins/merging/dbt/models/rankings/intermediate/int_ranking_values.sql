with ranking_columns as (
    select * from {{ source('rankings', 'ranking_columns') }}
),

results as (
    select * from {{ source('rankings', 'ranking_results') }}
),

merge_entries as (
    select * from {{ source('rankings', 'merge_entries') }}
),

evaluations as (
    select * from {{ source('rankings', 'merge_runs') }}
    where stage = 'evaluation'
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
        cast(1 as double) as weight,
        false as is_outdated
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
        if(evaluations.fingerprint is null, null, item_metrics.value) as value,  -- noqa: RF04
        item_metrics.weight,
        evaluations.fingerprint is null as is_outdated
    from ranking_columns
    inner join item_metrics
        on ranking_columns.problem = item_metrics.problem
        and ranking_columns.condition = item_metrics.condition
        and ranking_columns.metric = item_metrics.metric
        and item_metrics.filter = 'none'
    -- merges that are in the problem file, and scores of the weights that their recipes make
    inner join merge_entries
        on item_metrics.problem = merge_entries.problem
        and item_metrics.model_id = merge_entries.entry
    left join evaluations
        on item_metrics.problem = evaluations.problem
        and item_metrics.model_id = evaluations.model_id
        and ranking_columns.round = evaluations.round
        and merge_entries.fingerprint = evaluations.fingerprint
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
    weight,
    is_outdated
from together
