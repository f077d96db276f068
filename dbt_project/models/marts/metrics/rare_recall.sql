-- Formulas: variants/rare_recall.csv; sums: token_metrics; values: metric_values.
select * exclude (unit_id, definition) from {{ ref('token_metrics') }}
where metric = 'rare_recall'
