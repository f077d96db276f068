{{ metric(
    over = 'confidence_bins',
    suffix = 'pair',
    numerator = 'sum(abs(confidence_sum - top_1))',
    denominator = 'sum(tokens)',
    tokens = 'sum(tokens)',
    aggregations = {'_macro': 'macro', '_worst_decile': 'q90'},
    variants = {'bins_10': {'where': 'bins = 10'}},
    grid = {'bins_20': {'where': 'bins = 20'}},
) }}
