with models as (
    select * from {{ source('extract', 'models') }}
),

renamed as (
    select
        problem,
        model_id,
        full_id,
        family,
        base_id,
        revision,
        parameters,
        trained_context,
        licence,
        tokenizer_sha256,
        prepends_bos,
        interventions
    from models
)

select * from renamed
