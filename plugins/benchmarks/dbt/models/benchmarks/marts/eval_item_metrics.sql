with measures as (
    select * from {{ ref('int_eval_measures') }}
),

matches as (
    select * from {{ ref('int_eval_matches') }}
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
        first(characters order by is_gold desc nulls last, choice asc) as answer_characters,
        first(bytes order by is_gold desc nulls last, choice asc) as answer_bytes,
        first(words order by is_gold desc nulls last, choice asc) as answer_words
    from items
    group by problem, condition, item
),

together as (
    select
        problem,
        model_id,
        condition,
        item,
        'none' as filter,
        measure,
        reading,
        value,
        backend
    from measures
    union all by name
    select
        *,
        'match' as measure,
        'text' as reading
    from matches
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
        if(
            described.answer_characters > 1,
            concat(
                cast(pow(2, floor(log2(described.answer_characters))) as integer),
                '-',
                cast(pow(2, floor(log2(described.answer_characters)) + 1) as integer) - 1
            ),
            cast(described.answer_characters as varchar)
        ) as length_band,
        together.filter,
        catalog.metric,
        cast(together.value as double) as value,  -- noqa: RF04
        cast(
            case catalog.weighted_by
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
    inner join catalog
        on described.request_type = catalog.request_type
        and together.measure = catalog.measure
        and together.reading = catalog.reading
)

select * from item_metrics
