-- Models trained on many data recipes at three sizes, evaluated once each. Left out: evaluations of
-- other people's models, which have no record of their training.

with sizes as (
    from (values (411616256, '400M'), (1439795200, '1B'), (6889410560, '7B')) as s (parameters, size)
),

models as (
    select
        uuid as model_uuid,
        dataset_name as recipe,
        cast(hyperparameters ->> 'params' as bigint) as parameters,
        hyperparameters ->> 'model' as architecture,
        cast(hyperparameters ->> 'tokens' as double) as tokens,
        cast(hyperparameters ->> 'chinchilla_multiplier' as double) as multiple
    from read_json(
        'exp_data/models/**/*.json',
        columns = {uuid: 'varchar', dataset_name: 'varchar', hyperparameters: 'json'}
    )
),

evaluations as (
    select
        parse_filename(filename, true) as model,
        model_uuid,
        unnest([
            {metric: 'accuracy', direction: 'higher', scores: eval_metrics -> 'icl'},
            {metric: 'task_loss', direction: 'lower', scores: eval_metrics -> 'downstream_perpexity'}
        ]) as measured
    from read_json(
        'exp_data/evals/**/*.json',
        columns = {model_uuid: 'varchar', eval_metrics: 'json'},
        filename = true
    )
),

scores as (
    select
        * exclude (measured),
        measured.metric as metric,
        measured.direction as direction,
        unnest(map_entries(cast(measured.scores as map(varchar, json)))) as task
    from evaluations
)

select
    model,
    size || '-' || format('{:g}', multiple) || 'x' as size,
    recipe as family,
    recipe,
    architecture,
    parameters,
    tokens,
    task.key as benchmark,
    metric,
    direction,
    try_cast(task.value as double) as score
from scores
inner join models using (model_uuid)
inner join sizes using (parameters)
where isfinite(try_cast(task.value as double))
