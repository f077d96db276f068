select * exclude (unit_id, definition) from {{ ref('token_metrics') }}
where metric = 'rare_word_gain'
