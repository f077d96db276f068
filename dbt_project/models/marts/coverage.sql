select * from {{ ref('stg_coverage') }}
