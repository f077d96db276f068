with ranking_results as (
    select * from {{ source('rankings', 'ranking_results') }}
)

select * from ranking_results
