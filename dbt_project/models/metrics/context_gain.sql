{%- set grid = {
    'macro': {'aggregation': 'macro'},
    'median_document': {'aggregation': 'median'},
    'worst_decile': {'aggregation': 'q10'},
    'share_positive': {'numerator': 'count_if(gain > 0)'},
    'bits_per_byte': {
        'numerator': 'sum(gain) / ln(2)', 'denominator': 'max(byte_end) - min(byte_start)',
    },
} %}
{%- for alpha in [0.1, 0.5, 1, 2, 4] %}
    {%- do grid.update({'share_above_' ~ alpha: {'numerator': 'count_if(gain > ' ~ alpha ~ ')'}}) %}
{%- endfor %}
{%- set clipped = 'sum(greatest(least(gain, {0}), -{0}))' %}
{%- for limit in [0.1, 0.5, 1, 2] %}
    {%- do grid.update({'clipped_' ~ limit: {'numerator': clipped.format(limit)}}) %}
{%- endfor %}

{{ metric(
    over = 'common_pairs',
    numerator = 'sum(gain)',
    aggregations = {'_macro': 'macro'},
    variants = {
        'mean': {'aggregation': 'micro'},
        'relative': {'denominator': 'sum(short_nll)'},
        'clipped_5': {'numerator': clipped.format(5)},
    },
    grid = grid,
) }}
