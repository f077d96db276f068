{{ metric(
    over = 'needle_answers',
    numerator = 'sum(nll)',
    denominator = 'sum(tokens)',
    tokens = 'sum(tokens)',
    variants = {'every_depth': {}},
    grid = {
        'every_depth_macro': {'aggregation': 'macro'},
        'early': {'where': 'depth <= 0.4'},
        'late': {'where': 'depth >= 0.6'},
    },
) }}
