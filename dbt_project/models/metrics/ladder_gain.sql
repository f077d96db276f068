{%- set slope = {'numerator': 'sum(tokens * s_xy)', 'denominator': 'sum(tokens * s_xx)'} %}
{%- set total = {'numerator': 'sum(tokens * total)'} %}

{{ metric(
    over = 'ladder_curves',
    denominator = 'sum(tokens)',
    tokens = 'sum(tokens)',
    aggregations = {'_macro': 'macro'},
    variants = {
        'per_doubling': slope,
        'area': {'numerator': 'sum(tokens * area / doublings)'},
    },
    grid = {
        'total': total,
        'per_doubling_median': dict(slope, aggregation='median'),
        'relative': dict(total, denominator='sum(tokens * shortest_nll)', aggregation='micro'),
    },
) }}
