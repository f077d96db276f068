with models as (
    select * from {{ source('extract', 'models') }}
)

select * from models
