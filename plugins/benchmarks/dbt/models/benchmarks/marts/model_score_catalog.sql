with parts as (
    select * from {{ ref('int_model_scores') }}
),

variants as (
    select
        metric,
        variant,
        any_value(benchmark) as benchmark,
        any_value(document) filter (where is_one_document) as document,
        any_value(direction) as direction
    from parts
    group by metric, variant
)

select
    metric,
    variant,
    'scores of models' as family,
    json_object('aggregation', 'macro', 'benchmark', benchmark, 'document', document) as parameters,
    true as is_core,
    direction,
    true as is_admissible,
    cast(null as varchar) as transform,
    'model score' as code,
    if(document is null, concat('mean ', metric), metric) as formula,
    concat(
        'The score of a model as its table gives it in the column `', metric, '`, ',
        if(
            document is null,
            'its mean over documents where it has one for each.',
            'on one document.'
        )
    ) as description
from variants
