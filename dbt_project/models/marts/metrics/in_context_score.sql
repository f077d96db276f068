-- Formulas: variants/in_context_score.csv; sums: token_metrics; values: metric_values.
select * exclude (unit_id, definition) from {{ ref('token_metrics') }}
where metric = 'in_context_score'
