{%- set longest = {'where': 'is_longest', 'aggregation': 'macro'} %}
{%- set copy = {'numerator': 'sum(accuracy)'} %}

{{ metric(
    over = 'copy_lengths',
    numerator = 'sum(accuracy - absent_accuracy)',
    tokens = 'sum(tokens)',
    aggregations = {'_macro': 'macro'},
    variants = {'gain': {}, 'gain_longest': longest},
    grid = {'copy': copy, 'copy_longest': dict(copy, **longest)},
) }}
