{{ metric(
    over = 'ladder_reaches',
    numerator = 'sum(log_context)',
    tokens = 'sum(tokens)',
    aggregation = 'macro',
    transform = 'exp',
    variants = {'reach_90': {'where': 'share = 0.9'}},
    grid = {
        'reach_90_median': {'where': 'share = 0.9', 'aggregation': 'median'},
        'reach_50': {'where': 'share = 0.5'},
        'reach_75': {'where': 'share = 0.75'},
    },
) }}
