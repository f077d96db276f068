{{ metric(
    over = 'tokens',
    numerator = 'sum(nll)',
    transform = 'exp',
    aggregations = {'_macro': 'macro', '_median': 'median', '_worst_decile': 'q90'},
    variants = {
        'micro': {'aggregation': 'micro'},
        'bits_per_byte': {
            'numerator': 'sum(nll) / ln(2)',
            'denominator': 'max(byte_end) - min(byte_start)',
            'transform': none,
        },
    },
    grid = {
        'macro': {'aggregation': 'macro'},
        'median': {'aggregation': 'median'},
        'worst_decile': {'aggregation': 'q90'},
    },
) }}
