with units as (
    select * from {{ ref('stg_units') }}
),

models as (
    select * from {{ ref('stg_models') }}
),

candidates as (
    select
        units.problem,
        models.tokenizer_sha256,
        units.doc_id,
        units.model_id,
        units.probe,
        units.content_sha256 as version
    from units
    inner join models
        on units.problem = models.problem
        and units.model_id = models.model_id
    where units.status = 'done'
        and units.probe_kind = 'full'
    qualify row_number() over (
            partition by units.problem, models.tokenizer_sha256, units.doc_id
            order by units.rows desc, units.model_id asc
        ) = 1
)

select * from candidates
