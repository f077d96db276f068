with ranking_columns as (
    select * from {{ source('rankings', 'ranking_columns') }}
)

select * from ranking_columns
