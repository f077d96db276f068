-- A column without a direction (`direction: none`) isn't ranked, and its group isn't required.

with ranking_columns as (
    select * from {{ source('rankings', 'ranking_columns') }}
    where direction is not null or given = 'mean_win_rate'
)

select * from ranking_columns
