{{ config(materialized = 'view') }}

with pair_units as (
    select * from {{ ref('int_pair_units') }}
),

full_units as (
    select * from {{ ref('int_full_units') }}
),

named as (
    select distinct evaluator
    from {{ ref('stg_metric_variants') }}
    where evaluator is not null
),

models as (
    select * from {{ ref('stg_models') }}
),

lineup as (
    select * from {{ ref('stg_lineup') }}
),

sizes as (
    select
        problem,
        model_id,
        parameters
    from models
    where base_id is null
    union all
    select
        problem,
        model_id,
        parameters
    from lineup
    where parameters is not null
),

-- The largest checkpoint of the problem, not what was done to it: where it is not extracted, it
-- evaluates nothing, and no other model takes its place.
largest as (
    select
        problem,
        arg_max(model_id, (parameters, model_id)) as model_id
    from sizes
    group by problem
),

evaluators as (
    select
        pair_units.problem,
        pair_units.condition,
        pair_units.doc_id,
        pair_units.unit_id,
        named.evaluator
    from pair_units
    inner join largest
        on pair_units.problem = largest.problem
    inner join named
        on pair_units.model_id = case named.evaluator
            when 'largest' then largest.model_id
            else named.evaluator
        end
),

evaluated_units as (
    select
        full_units.problem,
        full_units.model_id,
        evaluators.condition,
        full_units.condition as full_condition,
        full_units.doc_id,
        full_units.document_tokens,
        full_units.unit_id,
        evaluators.evaluator,
        evaluators.unit_id as evaluator_unit_id,
        hash(evaluators.unit_id, evaluators.evaluator) as key_characters_id
    from full_units
    inner join evaluators
        on full_units.problem = evaluators.problem
        and full_units.doc_id = evaluators.doc_id
)

select * from evaluated_units
