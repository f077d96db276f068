-- Formulas: variants/nll_slope.csv; sums: token_metrics; values: metric_values.
select * exclude (unit_id, definition) from {{ ref('token_metrics') }}
where metric = 'nll_slope'
