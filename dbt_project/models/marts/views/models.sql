with models as (
    select * from {{ ref('stg_models') }}
)

select * from models
