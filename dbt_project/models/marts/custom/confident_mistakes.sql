-- A worked example: copy it, or run `tokenmart metrics new NAME`.

select * exclude (unit_id, definition) from {{ ref('token_metrics') }}
where metric = 'confident_mistakes'
