with units as (
    select * from {{ ref('int_units') }}
),

declared as (
    select * from {{ ref('stg_condition_pairs') }}
),

-- Every window is compared with the whole document, and whatever the problem file declares.
pair_units as (
    select
        long_context.problem,
        long_context.model_id,
        case
            when long_context.kind = 'full' then short_context.condition
            else concat(short_context.condition, '_in_', long_context.condition)
        end as condition,
        long_context.condition as long_condition,
        short_context.condition as short_condition,
        long_context.doc_id,
        long_context.document_tokens,
        long_context.parameters,
        long_context.tokenisation_id,
        long_context.token_features_id,
        hash(
            long_context.unit_id, short_context.unit_id, {{ code_of('int_context_pairs') }}
        ) as unit_id
    from units as long_context
    inner join units as short_context
        on long_context.problem = short_context.problem
        and long_context.model_id = short_context.model_id
        and long_context.doc_id = short_context.doc_id
    left join declared
        on long_context.problem = declared.problem
        and long_context.condition = declared.condition
        and short_context.condition = declared.short_condition
    where declared.condition is not null
        or (long_context.kind = 'full' and short_context.kind = 'window')
)

select * from pair_units
