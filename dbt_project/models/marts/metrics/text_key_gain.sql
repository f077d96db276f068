select * exclude (unit_id, definition) from {{ ref('token_metrics') }}
where metric = 'text_key_gain'
