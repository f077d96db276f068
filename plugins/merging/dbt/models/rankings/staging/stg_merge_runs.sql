with merge_runs as (
    select * from {{ source('rankings', 'merge_runs') }}
)

select * from merge_runs
