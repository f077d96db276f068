{{ metric(
    over = 'choice_divergences',
    suffix = 'pair',
    denominator = 'sum(tokens)',
    tokens = 'sum(tokens)',
    variants = {
        'kl': {'numerator': 'sum(long_to_short)'},
        'kl_macro': {'numerator': 'sum(long_to_short)', 'aggregation': 'macro'},
        'reverse': {'numerator': 'sum(short_to_long)'},
        'symmetric': {'numerator': 'sum(long_to_short + short_to_long)'},
    },
) }}
