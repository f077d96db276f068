{{ metric(
    over = 'common_pairs',
    numerator = 'sum(short_entropy) - sum(entropy)',
    aggregations = {'_macro': 'macro', '_worst_decile': 'q10'},
    variants = {'mean': {}},
    grid = {'relative': {'denominator': 'sum(short_entropy)'}},
) }}
