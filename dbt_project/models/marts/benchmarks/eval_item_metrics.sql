with measures as (
    select * from {{ ref('int_eval_measures') }}
),

matches as (
    select * from {{ ref('int_eval_matches') }}
),

requests as (
    select * from {{ ref('int_eval_requests') }}
),

items as (
    select * from {{ ref('stg_eval_items') }}
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
        first(characters order by is_gold desc nulls last, choice) as answer_characters,
        first(bytes order by is_gold desc nulls last, choice) as answer_bytes,
        first(words order by is_gold desc nulls last, choice) as answer_words
    from items
    group by problem, condition, item
),

backends as (
    select
        problem,
        model_id,
        condition,
        item,
        any_value(backend) as backend
    from requests
    group by problem, model_id, condition, item
),

scored as (
    select
        measures.problem,
        measures.model_id,
        measures.condition,
        measures.item,
        'none' as filter,
        backends.backend,
        catalog.metric,
        measures.value,
        catalog.weighted_by
    from measures
    inner join backends
        on measures.problem = backends.problem
        and measures.model_id = backends.model_id
        and measures.condition = backends.condition
        and measures.item = backends.item
    inner join described
        on measures.problem = described.problem
        and measures.condition = described.condition
        and measures.item = described.item
    inner join catalog
        on described.request_type = catalog.request_type
        and measures.measure = catalog.measure
        and measures.reading = catalog.reading
),

matched as (
    select
        problem,
        model_id,
        condition,
        item,
        filter,
        backend,
        'exact_match' as metric,
        value,
        'item' as weighted_by
    from matches
),

together as (
    select * from scored
    union all by name
    select * from matched
),

item_metrics as (
    select
        together.problem,
        together.model_id,
        together.condition,
        described.task,
        described.shots,
        described.request_type,
        together.item,
        described.subject,
        described.cluster,
        described.answer_characters,
        case
            when described.answer_characters > 1
                then concat(
                    cast(pow(2, floor(log2(described.answer_characters))) as integer),
                    '-',
                    cast(pow(2, floor(log2(described.answer_characters)) + 1) as integer) - 1
                )
            else cast(described.answer_characters as varchar)
        end as length_band,
        together.filter,
        together.metric,
        cast(together.value as double) as value,  -- noqa: RF04
        cast(
            case together.weighted_by
                when 'bytes' then described.answer_bytes
                when 'words' then described.answer_words
                else 1
            end as double
        ) as weight,
        together.backend
    from together
    inner join described
        on together.problem = described.problem
        and together.condition = described.condition
        and together.item = described.item
)

select * from item_metrics
