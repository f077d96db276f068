select * exclude (unit_id, definition) from {{ ref('token_metrics') }}
where metric = 'in_context_score'
