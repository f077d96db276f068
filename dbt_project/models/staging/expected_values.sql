with coverage as (
    select * from {{ ref('stg_coverage') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
),

families as (
    select * from {{ ref('stg_metric_families') }}
),

contexts as (
    select * from {{ source('extract', 'contexts') }}
),

-- Columns that imported log-probs don't have: metrics that read them have no value.
imported as (
    select
        problem,
        model_id,
        condition,
        max(concat(
            '; imported without ',
            array_to_string(from_json(nullif(imported, '') -> '$.lacks', '["VARCHAR"]'), ', ')
        )) as lacks
    from {{ source('extract', 'units') }}
    where json_array_length(nullif(imported, '') -> '$.lacks') > 0
    group by problem, model_id, condition
),

lacking as (
    select
        contexts.problem,
        contexts.needs,
        contexts.context,
        coverage.model_id,
        max(imported.lacks) as lacks,
        min(
            case
                when coverage.documents_done > 0 then null
                when coverage.failure is not null
                    then concat('condition ', coverage.condition, ': ', coverage.failure)
                else concat('condition ', coverage.condition, ' not extracted')
            end
        ) as reason
    from contexts
    inner join coverage
        on contexts.problem = coverage.problem
        and coverage.condition in (contexts.condition, contexts.short_condition)
    left join imported
        on coverage.problem = imported.problem
        and coverage.model_id = imported.model_id
        and coverage.condition = imported.condition
    group by all
),

evaluated as (
    select distinct problem
    from {{ ref('token_units') }}
    where is_evaluator and pair is not null
),

expected_values as (
    select
        lacking.problem,
        variants.metric,
        concat_ws('@', variants.variant, lacking.context) as variant,
        lacking.model_id,
        case
            when lacking.reason is not null then lacking.reason
            when variants.over = 'evaluator_key_tokens' and evaluated.problem is null
                then 'evaluator not extracted'
            when variants.min_tokens > 1
                then concat('0 of at least ', variants.min_tokens, ' tokens', lacking.lacks)
            else concat('no token qualified', lacking.lacks)
        end as reason_if_missing
    from variants
    inner join families using (metric)
    inner join lacking using (needs)
    left join evaluated using (problem)
    -- has values for evaluators whose key text was imported, and is expected of none
    where variants.over != 'published_key_text'
)

select * from expected_values
{%- for relation in plugin_relations('adds_metric_values__') %}
union all by name
-- a table of scores gives its own reasons
select
    problem,
    metric,
    variant,
    model_id,
    coalesce(reason, 'no score') as reason_if_missing
from {{ relation }}
{%- endfor %}
