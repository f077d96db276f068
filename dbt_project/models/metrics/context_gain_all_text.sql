{{ metric(
    over = 'token_pairs',
    numerator = 'sum(gain)',
    aggregations = {'_macro': 'macro'},
    variants = {},
    grid = {'mean': {}, 'relative': {'denominator': 'sum(short_nll)'}},
) }}
