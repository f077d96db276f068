-- Formulas: variants/position_gain.csv; sums: token_metrics; values: metric_values.
select * exclude (unit_id, definition) from {{ ref('token_metrics') }}
where metric = 'position_gain'
