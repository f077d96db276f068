with contexts as (
    select * from {{ ref('int_contexts') }}
),

full_contexts as (
    select * from {{ ref('int_full_contexts') }}
),

models as (
    select * from {{ ref('stg_models') }}
),

largest as (
    select
        contexts.problem,
        contexts.probe,
        arg_max(contexts.model_id, (models.parameters, contexts.model_id)) as model_id
    from contexts
    inner join models
        on contexts.problem = models.problem
        and contexts.model_id = models.model_id
    group by contexts.problem, contexts.probe
),

named as (
    select distinct evaluator
    from {{ ref('stg_metric_variants') }}
    where evaluator is not null
),

evaluators as (
    select
        contexts.problem,
        contexts.probe,
        contexts.model_id as evaluator_id,
        contexts.version,
        named.evaluator
    from contexts
    inner join largest
        on contexts.problem = largest.problem
        and contexts.probe = largest.probe
    inner join named
        on contexts.model_id = case named.evaluator
            when 'largest' then largest.model_id
            else named.evaluator
        end
),

evaluations as (
    select
        full_contexts.problem,
        full_contexts.model_id,
        full_contexts.probe as full_probe,
        evaluators.probe,
        evaluators.evaluator,
        evaluators.evaluator_id,
        md5(concat(full_contexts.version, evaluators.version)) as version
    from full_contexts
    inner join evaluators
        on full_contexts.problem = evaluators.problem
)

select * from evaluations
