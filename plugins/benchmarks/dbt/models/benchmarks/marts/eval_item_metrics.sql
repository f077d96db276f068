with measures as (
    select * from {{ ref('int_eval_measures') }}
),

items as (
    select * from {{ source('evals', 'eval_items') }}
),

scores as (
    select * from {{ ref('int_eval_scores') }}
),

cuts as (
    select
        problem,
        model_id,
        condition,
        item,
        max(tokens_cut) as tokens_cut
    from {{ ref('int_eval_requests') }}
    group by problem, model_id, condition, item
),

catalog as (
    select * from {{ ref('eval_metric_catalog') }}
),

-- lengths are those of the right answer; where several are right, of the first
described as (
    select
        problem,
        condition,
        item,
        any_value(task) as task,
        any_value(shots) as shots,
        any_value(subject) as subject,
        any_value(cluster) as cluster,
        any_value(request_type) as request_type,
        any_value(coalesce(options ->> 'own_metrics', '') = 'true') as has_own_metrics,
        first(characters order by is_gold desc nulls last, choice asc) as answer_characters,
        first(bytes order by is_gold desc nulls last, choice asc) as answer_bytes,
        first(strlen(continuation) order by is_gold desc nulls last, choice asc)
            as continuation_bytes,
        first(words order by is_gold desc nulls last, choice asc) as answer_words
    from items
    group by problem, condition, item
),

own_items as (
    select * from scores
    where item is not null
),

-- what the task counted itself, value or not, takes the place of ours
own_metrics as (
    select distinct
        problem,
        model_id,
        condition,
        filter,
        metric
    from scores
),

ours as (
    select
        measures.problem,
        measures.model_id,
        measures.condition,
        measures.item,
        'none' as filter,
        catalog.metric,
        cast(measures.value as double) as value,  -- noqa: RF04
        case catalog.weighted_by
            when 'bytes' then described.answer_bytes
            when 'bytes of the continuation' then described.continuation_bytes
            when 'words' then described.answer_words
            else 1
        end as weight,
        catalog.aggregate,
        measures.backend
    from measures
    inner join described using (problem, condition, item)
    inner join catalog using (request_type, measure, normalisation)
    anti join own_metrics
        on measures.problem = own_metrics.problem
        and measures.model_id = own_metrics.model_id
        and measures.condition = own_metrics.condition
        and own_metrics.filter = 'none'
        and catalog.metric = own_metrics.metric
    where not (described.has_own_metrics and catalog.origin = 'harness')
),

both_kinds as (
    select * from ours
    union all by name
    select
        problem,
        model_id,
        condition,
        item,
        filter,
        metric,
        value,
        weight,
        aggregate,
        backend
    from own_items
),

item_metrics as (
    select
        both_kinds.problem,
        both_kinds.model_id,
        both_kinds.condition,
        described.task,
        described.shots,
        described.request_type,
        both_kinds.item,
        concat(described.task, '/', cast(both_kinds.item as varchar)) as item_id,
        described.subject,
        described.cluster,
        described.answer_characters,
        if(
            described.answer_characters > 1,
            concat(
                cast(pow(2, floor(log2(described.answer_characters))) as integer),
                '-',
                cast(pow(2, floor(log2(described.answer_characters)) + 1) as integer) - 1
            ),
            cast(described.answer_characters as varchar)
        ) as length_band,
        both_kinds.filter,
        both_kinds.metric,
        both_kinds.value,
        cast(both_kinds.weight as double) as weight,
        both_kinds.aggregate,
        cast(cuts.tokens_cut as integer) as tokens_cut,
        both_kinds.backend
    from both_kinds
    inner join described using (problem, condition, item)
    left join cuts using (problem, model_id, condition, item)
)

select * from item_metrics
