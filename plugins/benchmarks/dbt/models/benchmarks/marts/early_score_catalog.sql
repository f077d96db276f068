with early_scores as (
    select * from {{ ref('early_scores') }}
),

series as (
    select * from {{ ref('int_benchmark_series') }}
),

directions as (
    select
        metric,
        any_value(direction) as direction
    from series
    group by metric
    union all
    select
        'no_evaluation' as metric,
        'higher' as direction
),

variants as (
    select distinct
        metric,
        variant
    from early_scores
)

select
    variants.metric,
    variants.variant,
    'early scores' as family,
    json_object(
        'benchmark', regexp_extract(variants.variant, '^(.*)@', 1),
        'stage', regexp_extract(variants.variant, '@([^@]*)$', 1)
    ) as parameters,
    true as is_core,
    directions.direction,
    true as is_admissible,
    cast(null as varchar) as transform,
    'early score' as code,
    case
        when variants.metric = 'no_evaluation' then replace(variants.variant, '_x_', ' × ')
        else concat(variants.metric, ' at an early stage')
    end as formula,
    case
        when variants.metric = 'no_evaluation'
            then concat(
                    'What is known of a run before it is evaluated: its parameters, or these ',
                    'times the tokens of its whole training. An early score should do better.'
                )
        else
            concat(
                'The score of a run as its table gives it in the column `', variants.metric,
                '`, at the share of training or the size that the variant names.'
            )
    end as description
from variants
inner join directions using (metric)
