{{ config(materialized = 'view') }}

with units as (
    select * from {{ ref('stg_units') }}
),

models as (
    select * from {{ ref('stg_models') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
),

families as (
    select * from {{ ref('stg_metric_families') }}
),

known_models as (
    select
        problem,
        model_id
    from models
    union
    select
        problem,
        model_id
    from units
),

conditions as (
    select distinct
        problem,
        condition,
        condition_kind,
        probe
    from units
),

-- The conditions behind a value, by what its family needs and what follows `@` in its name.
needed_conditions as (
    select
        problem,
        'full' as needs,
        null as suffix,
        condition
    from conditions
    where condition_kind = 'full'
    union all
    select
        problem,
        -- a retrieval probe makes two conditions, each of a kind of its own
        regexp_replace(condition_kind, '_(with|without)_document$', '') as needs,
        probe as suffix,
        condition
    from conditions
    where condition_kind != 'full'
    union all
    select
        windows.problem,
        'window' as needs,
        windows.probe as suffix,
        full_contexts.condition
    from conditions as windows
    inner join conditions as full_contexts
        on windows.problem = full_contexts.problem
    where windows.condition_kind = 'window'
        and full_contexts.condition_kind = 'full'
),

states as (
    select
        problem,
        model_id,
        condition,
        count(*) filter (where status = 'done') as documents_done,
        any_value(reason) filter (where status = 'failed') as failure
    from units
    group by problem, model_id, condition
),

lacking as (
    select
        needed_conditions.problem,
        needed_conditions.needs,
        needed_conditions.suffix,
        known_models.model_id,
        min(
            case
                when states.documents_done > 0 then null
                when states.failure is not null
                    then concat('condition ', needed_conditions.condition, ': ', states.failure)
                else concat('condition ', needed_conditions.condition, ' not extracted')
            end
        ) as reason
    from needed_conditions
    inner join known_models
        on needed_conditions.problem = known_models.problem
    left join states
        on known_models.problem = states.problem
        and known_models.model_id = states.model_id
        and needed_conditions.condition = states.condition
    group by all
),

evaluators as (
    select distinct
        problem,
        evaluator
    from {{ ref('int_evaluated_units') }}
),

expected_values as (
    select
        lacking.problem,
        variants.metric,
        concat_ws('@', variants.variant, lacking.suffix) as variant,
        lacking.model_id,
        case
            when lacking.reason is not null then lacking.reason
            when variants.evaluator is not null and evaluators.evaluator is null
                then concat('evaluator ', variants.evaluator, ' not extracted')
            when variants.min_tokens > 1
                then concat('0 of at least ', variants.min_tokens, ' tokens')
            else 'no token qualified'
        end as reason_if_missing
    from variants
    inner join families
        on variants.metric = families.metric
    inner join lacking
        on families.needs = lacking.needs
    left join evaluators
        on lacking.problem = evaluators.problem
        and variants.evaluator = evaluators.evaluator
)

select * from expected_values
