with units as (
    select * from {{ ref('int_units') }}
),

pair_units as (
    select
        full_context.problem,
        full_context.model_id,
        short_context.condition,
        full_context.condition as full_condition,
        full_context.doc_id,
        full_context.document_tokens,
        full_context.parameters,
        full_context.tokenisation_id,
        full_context.token_features_id,
        hash(
            full_context.unit_id, short_context.unit_id, {{ code_of('int_context_pairs') }}
        ) as unit_id
    from units as full_context
    inner join units as short_context
        on full_context.problem = short_context.problem
        and full_context.model_id = short_context.model_id
        and full_context.doc_id = short_context.doc_id
    where full_context.kind = 'full'
        and short_context.kind = 'window'
)

select * from pair_units
