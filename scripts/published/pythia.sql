-- 16 models, zero- and five-shot tasks over training, with standard errors. Parameters (with
-- embeddings) are those of the Pythia suite's table, whose batches have 2,097,152 tokens. Left out:
-- runs with another batch size, interventions, and CrowS-Pairs, whose scores have no better
-- direction.

with sizes as (
    from (values
        ('70m', 70426624), ('160m', 162322944), ('410m', 405334016), ('1b', 1011781632),
        ('1.4b', 1414647808), ('2.8b', 2775208960), ('6.9b', 6857302016), ('12b', 11846072320)
    ) as sizes (size, parameters)
),

metrics as (
    from (values ('acc', 'higher'), ('acc_norm', 'higher'), ('ppl', 'lower')) as m (metric, direction)
),

files as (
    select
        *,
        regexp_extract(
            filename,
            '/(pythia-([\d.]+[mb])(?:-bf16)?(?:-deduped)?)/(?:zero|five)-shot/.*_step(\d+)\.json$',
            ['model', 'size', 'step']
        ) as run
    from read_json(
        'evals/pythia-v1/**/*.json',
        columns = {config: 'json', results: 'map(varchar, json)'},
        filename = true
    )
),

tasks as (
    select
        run.model as model,
        run.size as size,
        try_cast(run.step as bigint) as step,
        cast(config ->> '$.num_fewshot' as integer) as shots,
        unnest(map_entries(results)) as task
    from files
)

select
    model,
    size,
    size as family,
    sizes.parameters,
    step,
    cast(step * 2097152 as double) as tokens,
    if(shots > 0, task.key || '_' || shots || 'shot', task.key) as benchmark,
    metric,
    direction,
    cast(task.value ->> metric as double) as score,
    cast(task.value ->> (metric || '_stderr') as double) as stderr
from tasks
inner join sizes using (size)
cross join metrics
where task.key not like 'crows\_pairs%' escape '\' and json_exists(task.value, metric)
