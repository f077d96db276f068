with units as (
    select * from {{ source('extract', 'units') }}
),

coverage as (
    select * from {{ ref('stg_coverage') }}
),

variants as (
    select * from {{ ref('stg_metric_variants') }}
),

families as (
    select * from {{ ref('stg_metric_families') }}
),

conditions as (
    select distinct
        problem,
        condition,
        condition_kind,
        probe
    from units
),

-- Each window with the whole document, and what the problem file declares: token_units.
pairs as (
    select
        long_contexts.problem,
        if(
            long_contexts.condition_kind = 'full',
            short_contexts.condition,
            concat(short_contexts.condition, '_in_', long_contexts.condition)
        ) as suffix,
        long_contexts.condition as long_condition,
        short_contexts.condition as short_condition
    from conditions as long_contexts
    inner join conditions as short_contexts using (problem)
    left join {{ source('extract', 'condition_pairs') }} as declared
        on long_contexts.problem = declared.problem
        and long_contexts.condition = declared.condition
        and short_contexts.condition = declared.short_condition
    where declared.condition is not null
        or (
            long_contexts.condition_kind = 'full' and short_contexts.condition_kind = 'window'
        )
),

conditions_with_choices as (
    select distinct
        problem,
        condition
    from {{ source('extract', 'top_tokens') }}
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
        probed.problem,
        -- retrieval and needle probes make two conditions, each of a kind of its own
        regexp_replace(
            probed.condition_kind, '_(with_document|without_document|present|absent)$', ''
        ) as needs,
        probed.probe as suffix,
        needed.condition
    from conditions as probed
    inner join conditions as needed using (problem, probe)
    where probed.condition_kind not in ('full', 'window')
        -- a control is compared with the answers to the document itself and without it
        and (
            needed.condition = probed.condition
            or probed.condition_kind in (
                'retrieval_foreign', 'retrieval_shuffled', 'retrieval_tail'
            )
            and needed.condition_kind in ('retrieval_with_document', 'retrieval_without_document')
        )
    union all
    select
        problem,
        'window' as needs,
        suffix,
        unnest([long_condition, short_condition]) as condition
    from pairs
    union all
    select
        pairs.problem,
        'choices' as needs,
        pairs.suffix,
        unnest([pairs.long_condition, pairs.short_condition]) as condition
    from pairs
    inner join conditions_with_choices
        on pairs.problem = conditions_with_choices.problem
        and pairs.short_condition = conditions_with_choices.condition
),

lacking as (
    select
        needed_conditions.problem,
        needed_conditions.needs,
        needed_conditions.suffix,
        coverage.model_id,
        min(
            case
                when coverage.documents_done > 0 then null
                when coverage.failure is not null
                    then concat('condition ', needed_conditions.condition, ': ', coverage.failure)
                else concat('condition ', needed_conditions.condition, ' not extracted')
            end
        ) as reason
    from needed_conditions
    inner join coverage using (problem, condition)
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
        concat_ws('@', variants.variant, lacking.suffix) as variant,
        lacking.model_id,
        case
            when lacking.reason is not null then lacking.reason
            when variants.over = 'evaluator_key_tokens' and evaluated.problem is null
                then 'evaluator not extracted'
            when variants.min_tokens > 1
                then concat('0 of at least ', variants.min_tokens, ' tokens')
            else 'no token qualified'
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
